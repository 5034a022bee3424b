#include "tools/explain/words.h"

#include <fmt/format.h>

#include "stack/wire/describe.h"
#include "stack/wire/syndrome.h"
#include "tools/explain/notes.h"
#include "tools/explain/text.h"
#include "tools/trace/cm.h"

namespace verbena::explain {
namespace {

using trace::Index;
using trace::kNoIndex;
using trace::Trace;
using trace::TracedPacket;

void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// tshark's names, shortened to fit an arrow.
std::string opcode_name(const OpcodeInfo& info) {
  std::string name(info.name);
  replace(name, "RDMA ", "");
  replace(name, " with Immediate", " Imm");
  replace(name, " with Invalidate", " Inv");
  replace(name, "READ response", "READ resp");
  replace(name, "ATOMIC Acknowledge", "Atomic ACK");
  if (info.transport == Transport::kUc) return "UC " + name;
  if (info.transport == Transport::kUd) return "UD " + name;
  return name;
}

std::string name_of(const Trace& trace, const TracedPacket& traced) {
  const wire::ParsedPacket& packet = *traced.packet;
  if (packet.info->operation == Operation::kAcknowledge) {
    switch (syndrome_kind(packet.syndrome)) {
      case SyndromeKind::kAck:
        return "ACK";
      case SyndromeKind::kRnrNak:
        return "RNR NAK";
      case SyndromeKind::kNak:
        return "NAK";
      case SyndromeKind::kReserved:
        return "AETH reserved";
    }
  }
  if (traced.connection != kNoIndex &&
      trace.connections[traced.connection].service == trace::Service::kGsi) {
    const auto message = trace::parse_cm(packet.payload);
    return message ? fmt::format("CM {}", message->name) : "MAD";
  }
  return opcode_name(*packet.info);
}

void add_answered(const Trace& trace, const TracedPacket& traced, PacketWords& words) {
  if (traced.answers == kNoIndex) return;
  const uint32_t last = trace.packets[traced.answers].number;
  const uint32_t first =
      traced.answers_from == kNoIndex ? last : trace.packets[traced.answers_from].number;
  words.details.push_back(first < last ? fmt::format("answers packets {} to {}", first, last)
                                       : fmt::format("answers packet {}", last));
}

void add_acknowledge(const TracedPacket& traced, PacketWords& words) {
  const uint8_t syndrome = traced.packet->syndrome;
  switch (syndrome_kind(syndrome)) {
    case SyndromeKind::kAck:
      if (syndrome != kAckNoCredits) {
        words.details.push_back(fmt::format("credit code {}", syndrome_value(syndrome)));
      }
      break;
    case SyndromeKind::kRnrNak:
      words.details.push_back(
          fmt::format("wait {}", duration_text(rnr_delay(syndrome_value(syndrome)))));
      break;
    case SyndromeKind::kNak:
      words.details.emplace_back(wire::nak_name(syndrome));
      break;
    case SyndromeKind::kReserved:
      words.details.push_back(fmt::format("syndrome 0x{:02x}", syndrome));
      break;
  }
  words.details.push_back(fmt::format("MSN {}", traced.packet->msn));
}

void add_atomic(const wire::ParsedPacket& packet, PacketWords& words) {
  if (packet.opcode == static_cast<uint8_t>(Opcode::kFetchAdd)) {
    words.details.push_back(fmt::format("add 0x{:x}", packet.swap_add));
  } else {
    words.details.push_back(fmt::format("if 0x{:x}, set 0x{:x}", packet.compare, packet.swap_add));
  }
}

void add_payload(const TracedPacket& traced, PacketWords& words) {
  const wire::ParsedPacket& packet = *traced.packet;
  const OpcodeInfo& info = *packet.info;
  const bool whole = !info.has_reth || packet.dma_length == traced.payload_bytes;
  words.details.push_back(whole
                              ? fmt::format("{} B", traced.payload_bytes)
                              : fmt::format("{} of {} B", traced.payload_bytes, packet.dma_length));
  if (info.has_imm) {
    words.details.push_back(fmt::format("imm 0x{:08x}", __builtin_bswap32(packet.imm_wire)));
  }
  if (info.has_ieth) {
    words.details.push_back(fmt::format("invalidates rkey 0x{:08x}", packet.invalidate_rkey));
  }
}

void add_read_response(const Trace& trace, const TracedPacket& traced, PacketWords& words) {
  if (traced.answers == kNoIndex || traced.parts == 0) return;
  words.details.push_back(fmt::format("{} of {} for packet {}", traced.part, traced.parts,
                                      trace.packets[traced.answers].number));
}

void add_details(const Trace& trace, const TracedPacket& traced, PacketWords& words) {
  const wire::ParsedPacket& packet = *traced.packet;
  switch (packet.info->operation) {
    case Operation::kSend:
    case Operation::kWrite:
      if (words.tone != Tone::kManagement) add_payload(traced, words);
      break;
    case Operation::kReadRequest:
      words.details.push_back(fmt::format("asks for {} B", packet.dma_length));
      break;
    case Operation::kReadResponse:
      add_payload(traced, words);
      add_read_response(trace, traced, words);
      break;
    case Operation::kAcknowledge:
      add_acknowledge(traced, words);
      if (traced.packet->syndrome != nak_syndrome(NakCode::kPsnSequence)) {
        add_answered(trace, traced, words);
      }
      break;
    case Operation::kAtomic:
      add_atomic(packet, words);
      break;
    case Operation::kAtomicAcknowledge:
      words.details.push_back(fmt::format("was 0x{:x}", packet.atomic_original));
      add_answered(trace, traced, words);
      break;
    case Operation::kCnp:
      break;
  }
  if (traced.continues && traced.repeats != kNoIndex) {
    words.details.push_back(
        packet.info->is_response()
            ? "again"
            : fmt::format("again (packet {})", trace.packets[traced.repeats].number));
  }
  if (packet.solicited) words.details.emplace_back("SE");
  const bool asks = packet.info->transport == Transport::kRc && packet.info->has_payload;
  if (packet.ack_req && asks && !packet.info->is_response()) words.details.emplace_back("AckReq");
  if (traced.cut) words.details.emplace_back("cut in the capture");
}

Tone tone_of(const Trace& trace, const TracedPacket& traced) {
  if (traced.packet->info->is_response()) return Tone::kResponse;
  const bool management = traced.connection != kNoIndex &&
                          trace.connections[traced.connection].service == trace::Service::kGsi;
  return management ? Tone::kManagement : Tone::kRequest;
}

}  // namespace

PacketWords words_of(const Trace& trace, const TracedPacket& traced) {
  PacketWords words;
  if (traced.packet) {
    words.name = name_of(trace, traced);
    words.tone = tone_of(trace, traced);
    if (traced.packet->info->operation != Operation::kCnp) words.psn = psn_text(traced.packet->psn);
    add_details(trace, traced, words);
  } else {
    words.name = "unreadable";
    words.details.push_back(fmt::format("{} B frame", traced.wire_bytes));
  }
  add_note(trace, traced, words);
  return words;
}

// The reasons that lie in the bytes of a frame; the others depend on who receives it.
std::string drop_text(DropReason reason) {
  switch (reason) {
    case DropReason::kTooShort:
      return "shorter than its headers say";
    case DropReason::kBadIpHeader:
      return "bad IP header: version, options, fragment or checksum";
    case DropReason::kBadLength:
      return "the lengths of IP, UDP and padding contradict each other";
    case DropReason::kBadUdpChecksum:
      return "wrong UDP checksum";
    case DropReason::kBadIcrc:
      return "wrong ICRC";
    case DropReason::kBadTransportVersion:
      return "transport header version is not 0";
    case DropReason::kUnknownOpcode:
      return "no known opcode";
    default:
      return std::string(drop_reason_name(reason));
  }
}

}  // namespace verbena::explain
