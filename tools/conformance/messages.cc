#include "tools/conformance/messages.h"

#include <algorithm>
#include <array>
#include <map>

namespace verbena::conformance {
namespace {

using trace::TracedPacket;

using ByPsn = std::map<uint32_t, const TracedPacket*>;

bool is_request(const TracedPacket& traced) {
  return !traced.packet->info->is_response() && traced.packet->info->operation != Operation::kCnp;
}

void append(Message& message, const TracedPacket& traced) {
  const wire::ParsedPacket& packet = *traced.packet;
  message.packets.push_back(traced.number);
  message.last_psn = packet.psn + (traced.psn_count - 1);
  message.length += static_cast<uint32_t>(packet.payload.size());
  if (!packet.info->ends_message()) return;
  message.complete = true;
  message.last_packet = traced.number;
  message.has_imm = packet.info->has_imm;
  message.imm = __builtin_bswap32(packet.imm_wire);
  message.solicited = packet.solicited;
  if (packet.info->operation == Operation::kReadRequest) message.length = packet.dma_length;
}

Message begin(const wire::ParsedPacket& packet) {
  Message message;
  message.operation = packet.info->operation;
  message.first_psn = packet.psn;
  message.va = packet.va;
  message.rkey = packet.rkey;
  message.announced = packet.dma_length;
  return message;
}

}  // namespace

uint32_t first_message(const trace::Trace& trace, const trace::Connection& connection) {
  std::array<bool, 2> begun{};   // a request of that side was seen
  std::array<bool, 2> inside{};  // and it was not the beginning of a message
  uint32_t first = 0;
  for (const trace::Index index : connection.packets) {
    const TracedPacket& traced = trace.packets[index];
    if (!traced.good() || !is_request(traced)) continue;
    const bool starts = traced.packet->info->starts_message();
    if (!begun[traced.side]) inside[traced.side] = !starts;
    begun[traced.side] = true;
    // The beginning: of the capture's first message, or of the first whole one of a side.
    if (starts && (first == 0 || inside[traced.side])) {
      first = traced.number;
      inside[traced.side] = false;
    }
  }
  if (first == 0) return 1;
  return trace.packets[connection.packets.front()].number == first ? 1 : first;
}

Packets packets_of(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                   uint32_t first) {
  Packets packets;
  for (const trace::Index index : connection.packets) {
    const TracedPacket& packet = trace.packets[index];
    if (packet.side == side && packet.good() && packet.number >= first) packets.push_back(&packet);
  }
  return packets;
}

Requests requests_of(const Packets& packets) {
  Requests result;
  ByPsn by_psn;
  for (const TracedPacket* traced : packets) {
    const wire::ParsedPacket& packet = *traced->packet;
    if (!is_request(*traced)) continue;
    if (!result.any) result.first_psn = packet.psn;
    result.any = true;
    by_psn.emplace(packet.psn.value(), traced);
  }
  if (!result.any) return result;
  Psn psn = result.first_psn;
  result.begins_inside = !by_psn.at(psn.value())->packet->info->starts_message();
  for (auto found = by_psn.find(psn.value()); found != by_psn.end();
       found = by_psn.find(psn.value())) {
    const TracedPacket& traced = *found->second;
    std::vector<Message>& messages = result.messages;
    if (messages.empty() || traced.packet->info->starts_message()) {
      messages.push_back(begin(*traced.packet));
    }
    Message& message = messages.back();
    append(message, traced);
    message.first_packet =
        message.packets.size() == 1 ? traced.number : std::min(message.first_packet, traced.number);
    psn = message.last_psn + 1;
  }
  // What is left are READs asked for again from their middle, or lies behind a hole.
  for (const auto& [value, traced] : by_psn) {
    result.has_hole = result.has_hole || !Psn(value).before(psn);
  }
  return result;
}

}  // namespace verbena::conformance
