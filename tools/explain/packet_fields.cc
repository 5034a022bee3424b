#include "tools/explain/packet_fields.h"

#include <fmt/format.h>

#include "stack/wire/describe.h"
#include "stack/wire/syndrome.h"
#include "tools/explain/text.h"
#include "tools/explain/words.h"

namespace verbena::explain {
namespace {

using trace::Index;
using trace::kNoIndex;
using trace::Trace;
using trace::TracedPacket;

class Fields {
 public:
  template <typename... Arguments>
  void add(const char* name, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fields_.push_back({name, fmt::format(format, std::forward<Arguments>(arguments)...)});
  }
  void refer(const Trace& trace, const char* name, Index index) {
    if (index != kNoIndex) fields_.push_back({name, PacketNumber{trace.packets[index].number}});
  }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

std::string kind_of_syndrome(uint8_t syndrome) {
  switch (syndrome_kind(syndrome)) {
    case SyndromeKind::kAck:
      if (syndrome == kAckNoCredits) return "ACK, credits not used";
      return fmt::format("ACK, credit code {}", syndrome_value(syndrome));
    case SyndromeKind::kRnrNak:
      return fmt::format("RNR NAK, timer code {} ({})", syndrome_value(syndrome),
                         duration_text(rnr_delay(syndrome_value(syndrome))));
    case SyndromeKind::kNak:
      return std::string("NAK, ") + wire::nak_name(syndrome);
    case SyndromeKind::kReserved:
      break;
  }
  return "reserved";
}

void add_headers(const wire::ParsedPacket& packet, Fields& fields) {
  constexpr std::string_view kEcn[] = {"not ECN capable", "ECT(1)", "ECT(0)",
                                       "congestion experienced"};
  fields.add("Ethernet", "{} to {}", mac_text(packet.source_mac), mac_text(packet.dest_mac));
  fields.add("IP", "{} to {}", gid_text(packet.source_gid), gid_text(packet.dest_gid));
  fields.add("Traffic class", "0x{:02x}, {}", packet.traffic_class, kEcn[packet.ecn & 3]);
  fields.add("UDP source port", "{}", packet.source_port);
  fields.add("Opcode", "0x{:02x} {}", packet.opcode, packet.info->name);
  fields.add("Destination QPN", "0x{:06x}", packet.dest_qpn);
  fields.add("PSN", "0x{:06x} ({})", packet.psn.value(), packet.psn.value());
  fields.add("P_Key", "0x{:04x}", packet.pkey);
  std::string flags;
  if (packet.ack_req) flags += "AckReq ";
  if (packet.solicited) flags += "SE ";
  if (packet.mig_req) flags += "MigReq ";
  if (packet.becn) flags += "BECN ";
  if (!flags.empty()) fields.add("BTH flags", "{}", flags.substr(0, flags.size() - 1));
}

void add_extended_headers(const wire::ParsedPacket& packet, Fields& fields) {
  const OpcodeInfo& info = *packet.info;
  if (info.has_deth) {
    fields.add("Source QPN", "0x{:06x}", packet.source_qpn);
    fields.add("Q_Key", "0x{:08x}", packet.qkey);
  }
  if (info.has_reth || info.has_atomic_eth) {
    fields.add("Virtual address", "0x{:016x}", packet.va);
    fields.add("rkey", "0x{:08x}", packet.rkey);
  }
  if (info.has_reth) fields.add("DMA length", "{}", packet.dma_length);
  if (info.has_atomic_eth) {
    fields.add("Swap or add", "0x{:016x}", packet.swap_add);
    fields.add("Compare", "0x{:016x}", packet.compare);
  }
  if (info.has_aeth) {
    fields.add("Syndrome", "0x{:02x}: {}", packet.syndrome, kind_of_syndrome(packet.syndrome));
    fields.add("MSN", "{}", packet.msn);
  }
  if (info.has_atomic_ack_eth) fields.add("Original value", "0x{:016x}", packet.atomic_original);
  if (info.has_imm) fields.add("Immediate", "0x{:08x}", __builtin_bswap32(packet.imm_wire));
  if (info.has_ieth) fields.add("Invalidated rkey", "0x{:08x}", packet.invalidate_rkey);
}

void add_payload(const TracedPacket& traced, Fields& fields) {
  constexpr size_t kShown = 32;
  const std::span<const uint8_t> payload = traced.packet->payload;
  fields.add("Payload", "{} B", traced.payload_bytes);
  if (payload.empty()) return;
  const std::span<const uint8_t> begin = payload.first(std::min(kShown, payload.size()));
  fields.add("Payload begins", "{:02x}", fmt::join(begin, " "));
}

}  // namespace

std::vector<Field> packet_fields(const Trace& trace, const TracedPacket& traced, Timestamp start) {
  Fields fields;
  fields.add("Time", "{} ms", milliseconds(start, traced.time));
  fields.add("Frame", "{} B", traced.wire_bytes);
  if (traced.cut) fields.add("In the capture", "{} B", traced.captured_bytes);
  if (traced.packet) {
    add_headers(*traced.packet, fields);
    add_extended_headers(*traced.packet, fields);
    if (traced.packet->info->has_payload) add_payload(traced, fields);
  }
  if (traced.drop) fields.add("Dropped", "{}", drop_text(*traced.drop));
  if (!traced.comment.empty()) fields.add("Comment", "{}", traced.comment);
  fields.refer(trace, "Repeats", traced.repeats);
  fields.refer(trace, "Because of", traced.cause_packet);
  fields.refer(trace, "Answers", traced.answers);
  if (traced.answers_from != traced.answers) {
    fields.refer(trace, "Answers all from", traced.answers_from);
  }
  fields.refer(trace, "Answered by", traced.answered_by);
  fields.refer(trace, "Leads to", traced.consequence);
  return fields.take();
}

}  // namespace verbena::explain
