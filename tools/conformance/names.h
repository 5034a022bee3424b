// The words that case files and messages use for numbers: those of the verbs (without IBV_WC_ and
// the like), and addresses as everybody writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stack/types.h"

namespace verbena::conformance {

struct Name {
  std::string_view word;
  uint32_t value;
};
using Names = std::span<const Name>;

extern const Names kRoleNames;
extern const Names kQpTypeNames;
extern const Names kQpStateNames;
extern const Names kAccessNames;  // bits
extern const Names kWrOpcodeNames;
extern const Names kWrFlagNames;  // bits
extern const Names kWcStatusNames;
extern const Names kWcOpcodeNames;
extern const Names kAsyncEventNames;
extern const Names kMtuNames;  // "1024" -> PathMtu

std::optional<uint32_t> value_of(Names names, std::string_view word);
// The word, or the number when there is none.
std::string word_of(Names names, uint32_t value);
template <typename Enum>
std::string word_of_enum(Names names, Enum value) {
  return word_of(names, static_cast<uint32_t>(value));
}
// "A, B or C"
std::string choices(Names names);

// "10.0.0.1" or "fd00::1".
std::optional<Gid> parse_ip(const std::string& text);
std::string ip_text(const Gid& gid);
// "02:00:00:00:00:01".
std::optional<MacAddr> parse_mac(const std::string& text);
std::string mac_text(const MacAddr& mac);

}  // namespace verbena::conformance
