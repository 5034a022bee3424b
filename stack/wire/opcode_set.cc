#include "stack/wire/opcode_set.h"

#include <optional>

namespace verbena {
namespace {

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "RDMA READ response First" -> "READ_RESPONSE_FIRST".
std::string word_of(std::string_view name) {
  take_prefix(name, "RDMA ");
  std::string word;
  for (const char c : name) word += c == ' ' ? '_' : upper(c);
  return word;
}

// `family` ends between two parts of `word`.
bool begins(std::string_view family, std::string_view word) {
  return word.starts_with(family) && word.size() > family.size() && word[family.size()] == '_';
}

}  // namespace

std::string opcode_word(const OpcodeInfo& info) {
  switch (info.operation) {
    case Operation::kAcknowledge:
      return "ACK";
    case Operation::kAtomicAcknowledge:
      return "ATOMIC_ACK";
    case Operation::kSend:
    case Operation::kWrite:
    case Operation::kReadRequest:
    case Operation::kReadResponse:
    case Operation::kAtomic:
    case Operation::kCnp:
      break;
  }
  if (info.name == "CmpSwap") return "COMPARE_SWAP";
  if (info.name == "FetchAdd") return "FETCH_ADD";
  return word_of(info.name);
}

OpcodeSet opcodes_named(std::string_view name) {
  const std::string upper_name = word_of(name);
  std::string_view rest = upper_name;
  std::optional<Transport> transport;
  if (take_prefix(rest, "RC_")) transport = Transport::kRc;
  if (take_prefix(rest, "UC_")) transport = Transport::kUc;
  if (take_prefix(rest, "UD_")) transport = Transport::kUd;
  take_prefix(rest, "RDMA_");
  OpcodeSet exact;
  OpcodeSet family;
  for (unsigned opcode = 0; opcode < exact.size() && !rest.empty(); ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known() || (transport && *transport != info.transport)) continue;
    const std::string word = opcode_word(info);
    exact[opcode] = word == rest;
    family[opcode] = begins(rest, word);
  }
  return exact.any() ? exact : family;
}

}  // namespace verbena
