#include "tools/trace/conversation.h"

#include <algorithm>
#include <utility>

#include "stack/base/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ip.h"
#include "stack/wire/udp.h"
#include "tools/trace/flows.h"
#include "tools/trace/sequence.h"

namespace verbena::trace {
namespace {

using Bytes = std::span<const uint8_t>;
using Parsed = std::variant<wire::ParsedPacket, DropReason>;

constexpr uint16_t kEtherTypeRoceV1 = 0x8915;

struct Network {
  uint16_t ether_type = 0;
  size_t at = 0;  // of the network header
};

Network network_of(Bytes frame) {
  using Ethernet = wire::EthernetView<const uint8_t>;
  using Vlan = wire::VlanView<const uint8_t>;
  if (frame.size() < Ethernet::kBytes) return {};
  Network network = {Ethernet(frame.data()).ether_type(), Ethernet::kBytes};
  if (network.ether_type == wire::kEtherTypeVlan &&
      frame.size() >= Ethernet::kBytes + Vlan::kBytes) {
    network.ether_type = Vlan(frame.data() + network.at).ether_type();
    network.at += Vlan::kBytes;
  }
  return network;
}

// Where the UDP header of a frame is that is meant for RoCEv2, whatever else is wrong with it; 0 if
// it is not.
size_t roce_udp_at(Bytes frame) {
  const Network network = network_of(frame);
  const Bytes ip = frame.subspan(std::min(network.at, frame.size()));
  constexpr size_t kProtocolAt = 9;
  constexpr size_t kNextHeaderAt = 6;
  size_t at = 0;
  if (network.ether_type == wire::kEtherTypeIpv4 && ip.size() > kProtocolAt &&
      ip[kProtocolAt] == wire::kIpProtocolUdp) {
    at = size_t{ip[0] & 0x0FU} * 4;
  } else if (network.ether_type == wire::kEtherTypeIpv6 && ip.size() > kNextHeaderAt &&
             ip[kNextHeaderAt] == wire::kIpProtocolUdp) {
    at = wire::Ipv6View<const uint8_t>::kBytes;
  }
  if (at == 0 || ip.size() < at + wire::UdpView<const uint8_t>::kBytes) return 0;
  const wire::UdpView<const uint8_t> udp(ip.data() + at);
  return udp.dest_port() == kRoceUdpPort ? network.at + at : 0;
}

// A frame of which the capture has only the beginning: its missing bytes are taken for zeros, for
// as long as the headers are there.
Parsed parse_cut(const CapturedFrame& captured, size_t udp_at, TracedPacket& traced) {
  constexpr uint32_t kLongest = 0x10100;  // IP's limit and the link layer
  std::vector<uint8_t> whole(captured.bytes);
  whole.resize(whole.size() + std::min(captured.missing_bytes, kLongest));
  wire::UdpView<uint8_t>(whole.data() + udp_at).set_checksum(0);
  Parsed parsed = wire::parse(whole);
  auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
  if (packet == nullptr) return parsed;
  const Bytes frame = captured.bytes;
  const auto here = [&](Bytes part) -> Bytes {
    const auto at = static_cast<size_t>(part.data() - whole.data());
    if (at >= frame.size()) return {};
    return frame.subspan(at, std::min(part.size(), frame.size() - at));
  };
  const auto headers_end = static_cast<size_t>(packet->payload.data() - whole.data());
  if (headers_end > frame.size()) return DropReason::kTooShort;
  traced.payload_bytes = static_cast<uint32_t>(packet->payload.size());
  packet->payload = here(packet->payload);
  packet->ip = here(packet->ip);
  return parsed;
}

// Nothing for a frame that is no RoCEv2.
std::optional<TracedPacket> trace_frame(const CapturedFrame& captured) {
  TracedPacket traced;
  traced.time = captured.time;
  traced.frame = captured.bytes;
  traced.wire_bytes = captured.wire_bytes;
  traced.captured_bytes = captured.wire_bytes - captured.missing_bytes;
  traced.comment = captured.comment;
  Parsed parsed = wire::parse(captured.bytes);
  if (const auto* packet = std::get_if<wire::ParsedPacket>(&parsed)) {
    if (!wire::icrc_valid(*packet)) traced.drop = DropReason::kBadIcrc;
    traced.payload_bytes = static_cast<uint32_t>(packet->payload.size());
    traced.packet = *packet;
    return traced;
  }
  const size_t udp_at = roce_udp_at(captured.bytes);
  if (udp_at == 0) return {};
  if (captured.missing_bytes > 0) {
    traced.cut = true;
    parsed = parse_cut(captured, udp_at, traced);
  }
  if (const auto* packet = std::get_if<wire::ParsedPacket>(&parsed)) traced.packet = *packet;
  if (const auto* drop = std::get_if<DropReason>(&parsed)) traced.drop = *drop;
  return traced;
}

}  // namespace

Trace analyse(const Capture& capture) {
  Trace trace;
  uint32_t number = 0;
  for (const CapturedFrame& captured : capture.frames) {
    ++number;
    if (std::optional<TracedPacket> traced = trace_frame(captured)) {
      traced->number = number;
      trace.packets.push_back(std::move(*traced));
    } else if (network_of(captured.bytes).ether_type == kEtherTypeRoceV1) {
      ++trace.rocev1_frames;
    } else {
      ++trace.other_frames;
    }
  }
  find_connections(trace);
  for (Connection& connection : trace.connections) explain_sequence(trace, connection);
  return trace;
}

}  // namespace verbena::trace
