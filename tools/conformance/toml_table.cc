#include "tools/conformance/toml_table.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "tools/error.h"

namespace verbena::conformance {
namespace {

uint32_t line_of(const toml::node& node) {
  return node.source().begin.line;
}

std::optional<uint64_t> parse_number(const std::string& text) {
  // strtoull would take signs and spaces.
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (*end != '\0' || errno == ERANGE) return std::nullopt;
  return value;
}

}  // namespace

TomlTable::TomlTable(const toml::table& table, std::string file, std::string name)
    : table_(&table),
      file_(std::move(file)),
      name_(std::move(name)),
      asked_(std::make_shared<std::set<std::string, std::less<>>>()) {}

void TomlTable::refuse_at(uint32_t line, std::string_view key, const std::string& what,
                          const std::string& help) const {
  std::string place = fmt::format("{}:{}: {}", file_, line, name_);
  if (!key.empty()) place += fmt::format("{}{}", name_.empty() ? "" : " ", key);
  throw tools::CommandError(fmt::format("{}: {}", place, what), help);
}

void TomlTable::refuse(std::string_view key, const std::string& what,
                       const std::string& help) const {
  const toml::node* node = table_->get(key);
  refuse_at(node != nullptr ? line_of(*node) : line_of(*table_), key, what, help);
}

void TomlTable::refuse(const std::string& what, const std::string& help) const {
  refuse_at(line_of(*table_), "", what, help);
}

const toml::node* TomlTable::find(std::string_view key) const {
  asked_->insert(std::string(key));
  return table_->get(key);
}

bool TomlTable::is_text(std::string_view key) const {
  const toml::node* node = find(key);
  return node != nullptr && node->is_string();
}

std::optional<std::string> TomlTable::text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) refuse(key, "is no text", fmt::format("{} = \"...\"", key));
  return node->as_string()->get();
}

std::string TomlTable::need_text(std::string_view key) {
  auto value = text(key);
  if (!value) refuse(key, "is missing", fmt::format("{} = \"...\"", key));
  return *value;
}

uint64_t TomlTable::to_number(std::string_view key, const toml::node& node, uint64_t max) const {
  std::optional<uint64_t> value;
  if (const auto* integer = node.as_integer(); integer != nullptr && integer->get() >= 0) {
    value = static_cast<uint64_t>(integer->get());
  } else if (const auto* text = node.as_string()) {
    value = parse_number(text->get());
  }
  if (!value) refuse(key, "is no number from 0 on", fmt::format("{} = 0x10", key));
  if (*value > max) {
    refuse(key, fmt::format("{} is too large", *value), fmt::format("a number up to {}", max));
  }
  return *value;
}

std::optional<uint64_t> TomlTable::number(std::string_view key, uint64_t max) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  return to_number(key, *node, max);
}

uint64_t TomlTable::need_number(std::string_view key, uint64_t max) {
  const auto value = number(key, max);
  if (!value) refuse(key, "is missing", fmt::format("{} = 0x10", key));
  return *value;
}

std::optional<double> TomlTable::real(std::string_view key, double least, double most,
                                      const char* what, const std::string& help) const {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value<double>();
  // Written so that NaN, which is in no order with anything, is refused too.
  if (!value || !(*value >= least && *value <= most)) refuse(key, what, help);
  return *value;
}

std::optional<DurationNs> TomlTable::seconds(std::string_view key) {
  constexpr double kMost = 1e9;  // 64 bits of nanoseconds hold 18 times as much
  const auto value =
      real(key, 0, kMost, "is no time in seconds from 0 to 1e9", fmt::format("{} = 0.001", key));
  if (!value) return std::nullopt;
  return static_cast<DurationNs>(std::llround(*value * 1e9));
}

std::optional<double> TomlTable::factor(std::string_view key) {
  return real(key, 1, 1000, "is no factor from 1 to 1000", fmt::format("{} = 1.1", key));
}

bool TomlTable::flag(std::string_view key, bool otherwise) {
  const toml::node* node = find(key);
  if (node == nullptr) return otherwise;
  if (!node->is_boolean()) refuse(key, "is neither true nor false", fmt::format("{} = true", key));
  return node->as_boolean()->get();
}

std::optional<uint32_t> TomlTable::word(std::string_view key, Names names) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  // A number may stand for itself where the words are numbers, as path_mtu = 1024.
  std::string text;
  if (node->is_string()) text = node->as_string()->get();
  if (node->is_integer()) text = std::to_string(node->as_integer()->get());
  const auto value = value_of(names, text);
  if (!value) refuse(key, fmt::format("'{}' is not known", text), "use " + choices(names));
  return value;
}

const toml::array* TomlTable::array(std::string_view key, const char* of) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (!node->is_array()) {
    refuse(key, fmt::format("is no list of {}", of), fmt::format("{} = [ ... ]", key));
  }
  return node->as_array();
}

std::vector<uint32_t> TomlTable::words(std::string_view key, Names names) {
  std::vector<uint32_t> all;
  const toml::array* list = array(key, "words");
  if (list == nullptr) return all;
  for (const toml::node& node : *list) {
    const auto text = node.value<std::string>();
    const auto value = text ? value_of(names, *text) : std::nullopt;
    if (!value) {
      refuse_at(line_of(node), key, fmt::format("'{}' is not known", text.value_or("?")),
                "use " + choices(names));
    }
    all.push_back(*value);
  }
  return all;
}

std::optional<uint32_t> TomlTable::bits(std::string_view key, Names names) {
  if (!has(key)) return std::nullopt;
  uint32_t all = 0;
  for (const uint32_t bit : words(key, names)) all |= bit;
  return all;
}

std::vector<std::string> TomlTable::texts(std::string_view key) {
  std::vector<std::string> all;
  const toml::array* list = array(key, "texts");
  if (list == nullptr) return all;
  for (const toml::node& node : *list) {
    const auto text = node.value<std::string>();
    if (!text) {
      refuse_at(line_of(node), key, "one of the list is no text",
                fmt::format("{} = [\"...\"]", key));
    }
    all.push_back(*text);
  }
  return all;
}

std::vector<uint64_t> TomlTable::numbers(std::string_view key, uint64_t max) {
  std::vector<uint64_t> all;
  const toml::array* list = array(key, "numbers");
  if (list == nullptr) return all;
  for (const toml::node& node : *list) all.push_back(to_number(key, node, max));
  return all;
}

Gid TomlTable::need_ip(std::string_view key) {
  const std::string text = need_text(key);
  const auto gid = parse_ip(text);
  if (!gid) {
    refuse(key, fmt::format("'{}' is no IP address", text),
           fmt::format("{} = \"10.0.0.1\" or \"fd00::1\"", key));
  }
  return *gid;
}

MacAddr TomlTable::need_mac(std::string_view key) {
  const std::string text = need_text(key);
  const auto mac = parse_mac(text);
  if (!mac) {
    refuse(key, fmt::format("'{}' is no MAC address", text),
           fmt::format("{} = \"02:00:00:00:00:01\"", key));
  }
  return *mac;
}

std::optional<TomlTable> TomlTable::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_table()) refuse(key, "is no table", fmt::format("{} = {{ ... }}", key));
  const std::string name =
      name_.empty() ? fmt::format("[{}]", key) : fmt::format("{} {}", name_, key);
  return TomlTable(*node->as_table(), file_, name);
}

TomlTable TomlTable::need_table(std::string_view key) {
  auto found = table(key);
  if (!found) refuse(key, "is missing", fmt::format("a table {}", key));
  return *found;
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  std::vector<TomlTable> all;
  const toml::node* node = find(key);
  if (node == nullptr) return all;
  const std::string help =
      name_.empty() ? fmt::format("[[{}]]", key) : fmt::format("{} = [{{ ... }}, ...]", key);
  if (!node->is_array()) refuse(key, "is no list of tables", help);
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_table()) refuse_at(line_of(element), key, "is no list of tables", help);
    const std::string name =
        fmt::format("{}[[{}]] {}", name_.empty() ? "" : name_ + " ", key, all.size() + 1);
    all.emplace_back(*element.as_table(), file_, name);
  }
  return all;
}

std::vector<std::string> TomlTable::keys() {
  std::vector<std::string> all;
  for (const auto& [key, node] : *table_) {
    all.emplace_back(key.str());
    asked_->insert(all.back());
  }
  return all;
}

void TomlTable::done() const {
  for (const auto& [key, node] : *table_) {
    if (asked_->count(key.str()) != 0) continue;
    refuse_at(key.source().begin.line, key.str(), "there is no such key here",
              fmt::format("use one of {}", fmt::join(*asked_, ", ")));
  }
}

}  // namespace verbena::conformance
