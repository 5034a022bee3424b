#include "stack/wire/describe.h"

#include <cstdarg>
#include <cstdio>

#include "stack/wire/syndrome.h"

namespace verbena::wire {
namespace {

__attribute__((format(printf, 2, 3))) void append(std::string& text, const char* format, ...) {
  char buffer[128];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  if (length > 0) text += buffer;
}

const char* transport_name(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return "RC ";
    case Transport::kUc:
      return "UC ";
    case Transport::kUd:
      return "UD ";
    case Transport::kCnp:
      return "";
  }
  return "";
}

void append_syndrome(std::string& text, uint8_t syndrome) {
  const unsigned value = syndrome_value(syndrome);
  switch (syndrome_kind(syndrome)) {
    case SyndromeKind::kAck:
      if (syndrome != kAckNoCredits) append(text, " credits %u", value);
      return;
    case SyndromeKind::kRnrNak:
      append(text, " RNR NAK timer %u", value);
      return;
    case SyndromeKind::kReserved:
      append(text, " reserved syndrome 0x%02x", unsigned{syndrome});
      return;
    case SyndromeKind::kNak:
      append(text, " NAK %s", nak_name(syndrome));
      return;
  }
}

}  // namespace

const char* nak_name(uint8_t syndrome) {
  switch (static_cast<NakCode>(syndrome_value(syndrome))) {
    case NakCode::kPsnSequence:
      return "PSN sequence error";
    case NakCode::kInvalidRequest:
      return "invalid request";
    case NakCode::kRemoteAccess:
      return "remote access error";
    case NakCode::kRemoteOperational:
      return "remote operational error";
  }
  return "reserved code";
}

std::string describe(const ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  std::string text = transport_name(info.transport);
  text += info.name;
  append(text, " QPN 0x%x", packet.dest_qpn);
  if (info.transport != Transport::kCnp) append(text, " PSN %u", packet.psn.value());
  if (info.has_deth) append(text, " from QPN 0x%x qkey 0x%x", packet.source_qpn, packet.qkey);
  if (info.has_reth || info.has_atomic_eth) {
    append(text, " va 0x%llx rkey 0x%x", static_cast<unsigned long long>(packet.va), packet.rkey);
  }
  if (info.has_reth) append(text, " dma %u", packet.dma_length);
  if (info.has_atomic_eth) {
    append(text, " operand 0x%llx", static_cast<unsigned long long>(packet.swap_add));
  }
  if (packet.opcode == static_cast<uint8_t>(Opcode::kCompareSwap)) {
    append(text, " compare 0x%llx", static_cast<unsigned long long>(packet.compare));
  }
  if (info.has_aeth) {
    append_syndrome(text, packet.syndrome);
    append(text, " MSN %u", packet.msn);
  }
  if (info.has_atomic_ack_eth) {
    append(text, " original 0x%llx", static_cast<unsigned long long>(packet.atomic_original));
  }
  if (info.has_imm) append(text, " imm 0x%08x", __builtin_bswap32(packet.imm_wire));
  if (info.has_ieth) append(text, " invalidate 0x%x", packet.invalidate_rkey);
  if (info.has_payload) append(text, " len %zu", packet.payload.size());
  if (packet.solicited) text += " SE";
  if (packet.ack_req) text += " A";
  return text;
}

std::string describe(std::span<const uint8_t> frame) {
  const auto parsed = parse(frame);
  if (const auto* packet = std::get_if<ParsedPacket>(&parsed)) return describe(*packet);
  return "dropped: " + std::string(drop_reason_name(*std::get_if<DropReason>(&parsed)));
}

}  // namespace verbena::wire
