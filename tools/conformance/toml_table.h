// TomlTable: a table of a TOML file, read key by key.
//
// Every wrong thing ends in a CommandError that says file, line, table and key, and what to write.
// done() is to be called at the end: it refuses keys that nobody asked for, so that a misspelt one
// does not pass for an absent one.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/time.h"
#include "tools/conformance/names.h"

namespace verbena::conformance {

class TomlTable {
 public:
  // `name` as in the file: "[device]", "[[send]] 2".
  TomlTable(const toml::table& table, std::string file, std::string name);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // For keys that may be a text or something else.
  bool is_text(std::string_view key) const;

  std::optional<std::string> text(std::string_view key);
  std::string need_text(std::string_view key);
  // Integers; also as text "0x…" for those above 2^63.
  std::optional<uint64_t> number(std::string_view key, uint64_t max);
  uint64_t need_number(std::string_view key, uint64_t max);
  // Overwrites `value` when the key is there.
  template <typename Integer>
  void read(std::string_view key, Integer& value, uint64_t max) {
    if (const auto given = number(key, max)) value = static_cast<Integer>(*given);
  }
  // A time in seconds, at most a billion.
  std::optional<DurationNs> seconds(std::string_view key);
  // A number from 1 to 1000.
  std::optional<double> factor(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  std::optional<uint32_t> word(std::string_view key, Names names);
  template <typename Enum>
  void read_word(std::string_view key, Enum& value, Names names) {
    if (const auto given = word(key, names)) value = static_cast<Enum>(*given);
  }
  std::vector<uint32_t> words(std::string_view key, Names names);
  // An array of words that are bits.
  std::optional<uint32_t> bits(std::string_view key, Names names);
  std::vector<std::string> texts(std::string_view key);
  std::vector<uint64_t> numbers(std::string_view key, uint64_t max);
  Gid need_ip(std::string_view key);
  MacAddr need_mac(std::string_view key);

  // Tables within this one. An absent one is an empty list or nothing.
  std::optional<TomlTable> table(std::string_view key);
  TomlTable need_table(std::string_view key);
  std::vector<TomlTable> tables(std::string_view key);
  // The names of the keys, all taken as asked for: a table from names to numbers.
  std::vector<std::string> keys();

  void done() const;

  // Both end in a CommandError; the first at the place of the key's value.
  [[noreturn]] void refuse(std::string_view key, const std::string& what,
                           const std::string& help) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& help) const;

 private:
  // `help` says what to write in place of what is no number, NaN or outside of these bounds.
  [[nodiscard]] std::optional<double> real(std::string_view key, double least, double most,
                                           const char* what, const std::string& help) const;
  // Notes that the key was asked for.
  const toml::node* find(std::string_view key) const;
  uint64_t to_number(std::string_view key, const toml::node& node, uint64_t max) const;
  const toml::array* array(std::string_view key, const char* of);
  [[noreturn]] void refuse_at(uint32_t line, std::string_view key, const std::string& what,
                              const std::string& help) const;

  const toml::table* table_;
  std::string file_;
  std::string name_;
  // Shared by copies, so that what was asked of one is known to all.
  std::shared_ptr<std::set<std::string, std::less<>>> asked_;
};

}  // namespace verbena::conformance
