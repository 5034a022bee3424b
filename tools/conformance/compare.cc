#include "tools/conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stack/base/bytes.h"
#include "stack/wire/bth.h"
#include "stack/wire/describe.h"
#include "stack/wire/syndrome.h"
#include "tools/conformance/names.h"

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// Where the BTH lies in the IP packet. parse() has seen that it is there.
const uint8_t* bth_of(const ParsedPacket& packet) {
  const size_t ip_bytes = packet.ip[0] >> 4 == 6 ? 40 : size_t{packet.ip[0] & 15U} * 4;
  return packet.ip.data() + ip_bytes + 8;
}

bool always(const OpcodeInfo& /*info*/) {
  return true;
}

// A field that is a number.
struct Field {
  std::string_view name;
  bool (*present)(const OpcodeInfo& info);
  uint64_t (*value)(const ParsedPacket& packet);
};

bool has_address(const OpcodeInfo& info) {
  return info.has_reth || info.has_atomic_eth;
}

using P = ParsedPacket;
using I = OpcodeInfo;
constexpr std::array kFields = {
    Field{"traffic_class", always, [](const P& p) -> uint64_t { return p.traffic_class & 0xFCU; }},
    Field{"opcode", always, [](const P& p) -> uint64_t { return p.opcode; }},
    Field{"solicited", always, [](const P& p) -> uint64_t { return p.solicited; }},
    Field{"pkey", always, [](const P& p) -> uint64_t { return p.pkey; }},
    Field{"fecn", always,
          [](const P& p) -> uint64_t { return wire::BthView<const uint8_t>(bth_of(p)).fecn(); }},
    Field{"becn", always, [](const P& p) -> uint64_t { return p.becn; }},
    Field{"dest_qpn", always, [](const P& p) -> uint64_t { return p.dest_qpn; }},
    Field{"ack_req", always, [](const P& p) -> uint64_t { return p.ack_req; }},
    Field{"psn", always, [](const P& p) -> uint64_t { return p.psn.value(); }},
    Field{"qkey", [](const I& i) { return i.has_deth; },
          [](const P& p) -> uint64_t { return p.qkey; }},
    Field{"source_qpn", [](const I& i) { return i.has_deth; },
          [](const P& p) -> uint64_t { return p.source_qpn; }},
    Field{"va", has_address, [](const P& p) -> uint64_t { return p.va; }},
    Field{"rkey", has_address, [](const P& p) -> uint64_t { return p.rkey; }},
    Field{"dma_length", [](const I& i) { return i.has_reth; },
          [](const P& p) -> uint64_t { return p.dma_length; }},
    Field{"swap_add", [](const I& i) { return i.has_atomic_eth; },
          [](const P& p) -> uint64_t { return p.swap_add; }},
    Field{"compare", [](const I& i) { return i.has_atomic_eth; },
          [](const P& p) -> uint64_t { return p.compare; }},
    Field{"syndrome", [](const I& i) { return i.has_aeth; },
          [](const P& p) -> uint64_t { return p.syndrome; }},
    Field{"msn", [](const I& i) { return i.has_aeth; },
          [](const P& p) -> uint64_t { return p.msn; }},
    Field{"atomic_original", [](const I& i) { return i.has_atomic_ack_eth; },
          [](const P& p) -> uint64_t { return p.atomic_original; }},
    Field{"imm", [](const I& i) { return i.has_imm; },
          [](const P& p) -> uint64_t { return __builtin_bswap32(p.imm_wire); }},
    Field{"invalidate_rkey", [](const I& i) { return i.has_ieth; },
          [](const P& p) -> uint64_t { return p.invalidate_rkey; }},
    Field{"payload_bytes", always, [](const P& p) -> uint64_t { return p.payload.size(); }},
};

std::optional<uint64_t> value_in(const Field& field, const ParsedPacket& packet) {
  if (!field.present(*packet.info)) return std::nullopt;
  return field.value(packet);
}

std::string syndrome_text(uint8_t syndrome) {
  const uint8_t value = syndrome_value(syndrome);
  switch (syndrome_kind(syndrome)) {
    case SyndromeKind::kAck:
      return syndrome == kAckNoCredits ? "ACK" : fmt::format("ACK, credits {}", value);
    case SyndromeKind::kRnrNak:
      return fmt::format("RNR NAK, timer {}", value);
    case SyndromeKind::kNak:
      return fmt::format("NAK {}", wire::nak_name(syndrome));
    case SyndromeKind::kReserved:
      break;
  }
  return "reserved";
}

void compare_text(std::vector<FieldMismatch>& found, const char* field, const std::string& capture,
                  const std::string& ours) {
  if (capture != ours) found.push_back({field, capture, ours, std::nullopt});
}

void compare_payload(std::vector<FieldMismatch>& found, const ParsedPacket& capture,
                     const ParsedPacket& ours) {
  const auto [theirs, mine] = std::mismatch(capture.payload.begin(), capture.payload.end(),
                                            ours.payload.begin(), ours.payload.end());
  if (theirs == capture.payload.end() || mine == ours.payload.end()) return;  // payload_bytes
  const auto offset = theirs - capture.payload.begin();
  found.push_back({"payload", fmt::format("0x{:02x} at byte {}", *theirs, offset),
                   fmt::format("0x{:02x} there", *mine), std::nullopt});
}

// What a field must be, by the capture, the exceptions and the rules.
struct Wanted {
  bool any = false;
  std::optional<uint64_t> value;
};

// AckReq within a message is the sender's choice (RC-REQ-3).
Wanted wanted_ack_req(const OpcodeInfo& info) {
  if (info.transport == Transport::kUd || info.is_response()) return {false, 0};
  return info.ends_message() ? Wanted{false, 1} : Wanted{true, {}};
}

Wanted wanted_value(const Field& field, const ParsedPacket& capture, const Exceptions& exceptions) {
  const auto& ignored = exceptions.ignored;
  if (std::find(ignored.begin(), ignored.end(), field.name) != ignored.end()) return {true, {}};
  bool other_opcode = false;
  for (const FieldValue& value : exceptions.ours) {
    if (value.field == field.name) return {false, value.value};
    other_opcode = other_opcode || value.field == "opcode";
  }
  if (field.name == "ack_req") return wanted_ack_req(*capture.info);
  if (field.name == "fecn" || field.name == "becn") return {false, 0};
  const auto value = value_in(field, capture);
  // Another opcode may bring headers that the capture's packet has not.
  return {!value && other_opcode, value};
}

// Of an ACK the credit count is the sender's choice (RC-REQ-17).
bool same_acks(const Field& field, const std::optional<uint64_t>& wanted,
               const std::optional<uint64_t>& mine) {
  const auto is_ack = [](const std::optional<uint64_t>& syndrome) {
    return syndrome && syndrome_kind(static_cast<uint8_t>(*syndrome)) == SyndromeKind::kAck;
  };
  return field.name == "syndrome" && is_ack(wanted) && is_ack(mine);
}

}  // namespace

std::vector<FieldMismatch> compare(const ParsedPacket& capture, const ParsedPacket& ours,
                                   const Exceptions& exceptions) {
  std::vector<FieldMismatch> found;
  compare_text(found, "mac_source", mac_text(capture.source_mac), mac_text(ours.source_mac));
  compare_text(found, "mac_dest", mac_text(capture.dest_mac), mac_text(ours.dest_mac));
  compare_text(found, "ip_source", ip_text(capture.source_gid), ip_text(ours.source_gid));
  compare_text(found, "ip_dest", ip_text(capture.dest_gid), ip_text(ours.dest_gid));
  for (const Field& field : kFields) {
    const Wanted wanted = wanted_value(field, capture, exceptions);
    if (wanted.any) continue;
    const auto mine = value_in(field, ours);
    if (wanted.value == mine || same_acks(field, wanted.value, mine)) continue;
    found.push_back({std::string(field.name),
                     wanted.value ? field_text(field.name, *wanted.value) : "absent",
                     mine ? field_text(field.name, *mine) : "absent", mine});
  }
  compare_payload(found, capture, ours);
  return found;
}

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return names;
}

std::optional<uint64_t> field_value(const ParsedPacket& packet, std::string_view name) {
  for (const Field& field : kFields) {
    if (field.name == name) return value_in(field, packet);
  }
  return std::nullopt;
}

std::string field_text(std::string_view field, uint64_t value) {
  if (field == "opcode") {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(value));
    return info.known() ? std::string(info.name) : fmt::format("0x{:02x}", value);
  }
  if (field == "syndrome") {
    return fmt::format("0x{:02x} ({})", value, syndrome_text(static_cast<uint8_t>(value)));
  }
  static constexpr std::string_view kDecimal[] = {
      "psn", "msn", "dma_length", "payload_bytes", "solicited", "ack_req", "fecn", "becn"};
  const bool decimal =
      std::find(std::begin(kDecimal), std::end(kDecimal), field) != std::end(kDecimal);
  return decimal ? std::to_string(value) : fmt::format("0x{:x}", value);
}

std::optional<uint8_t> opcode_of(std::string_view name, Transport transport) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (info.known() && info.transport == transport && info.name == name) {
      return static_cast<uint8_t>(opcode);
    }
  }
  return std::nullopt;
}

}  // namespace verbena::conformance
