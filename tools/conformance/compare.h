// Compares a packet that Verbena sent with the one in the capture, field by field.
//
// Which fields are compared, and which are Verbena's own choice, is said in docs/conformance.md;
// fields() is the same list. Keys and QPNs must have been translated before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/conformance/case.h"

namespace verbena::conformance {

struct FieldMismatch {
  std::string field;
  std::string expected;  // "absent" where the packet has no such header
  std::string ours;
  std::optional<uint64_t> ours_value;  // of fields that are numbers
};

// What a case says about one packet: values that count in place of the capture's, and fields that
// do not count.
struct Exceptions {
  std::vector<FieldValue> ours;
  std::vector<std::string> ignored;
};

// All mismatches, in the order of the headers.
std::vector<FieldMismatch> compare(const wire::ParsedPacket& capture,
                                   const wire::ParsedPacket& ours, const Exceptions& exceptions);

// The names of the fields that are numbers, for [[difference]].
std::vector<std::string_view> field_names();
// The value of a field, or nothing when the packet has no such header.
std::optional<uint64_t> field_value(const wire::ParsedPacket& packet, std::string_view field);
// As messages show it: "0x61 (NAK invalid request)".
std::string field_text(std::string_view field, uint64_t value);
// The opcode's byte by its name, as "RDMA READ response First".
std::optional<uint8_t> opcode_of(std::string_view name, Transport transport);

}  // namespace verbena::conformance
