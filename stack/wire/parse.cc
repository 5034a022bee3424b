#include "stack/wire/parse.h"

#include <cstring>
#include <optional>

#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ip.h"
#include "stack/wire/udp.h"

namespace verbena::wire {
namespace {

using Bytes = std::span<const uint8_t>;
using Drop = std::optional<DropReason>;
using Ethernet = EthernetView<const uint8_t>;
using Vlan = VlanView<const uint8_t>;
using Ipv4 = Ipv4View<const uint8_t>;
using Ipv6 = Ipv6View<const uint8_t>;
using Udp = UdpView<const uint8_t>;
using Bth = BthView<const uint8_t>;

// Each step below checks one layer, fills in its fields and leaves in `rest` what that layer
// carries: exactly as many bytes as its length field says.

Drop parse_ethernet(Bytes& rest, ParsedPacket& packet, uint16_t& ether_type) {
  if (rest.size() < Ethernet::kBytes) return DropReason::kTooShort;
  const Ethernet ethernet(rest.data());
  packet.dest_mac = ethernet.dest();
  packet.source_mac = ethernet.source();
  ether_type = ethernet.ether_type();
  rest = rest.subspan(Ethernet::kBytes);
  if (ether_type == kEtherTypeVlan) {
    if (rest.size() < Vlan::kBytes) return DropReason::kTooShort;
    ether_type = Vlan(rest.data()).ether_type();
    rest = rest.subspan(Vlan::kBytes);
  }
  return {};
}

Drop parse_ipv4(Bytes& rest, ParsedPacket& packet, uint64_t& address_sum) {
  if (rest.size() < Ipv4::kBytes) return DropReason::kTooShort;
  const Ipv4 ip(rest.data());
  if (ip.version_ihl() != Ipv4::kVersionIhl || ip.is_fragment() || !ip.checksum_right()) {
    return DropReason::kBadIpHeader;
  }
  if (ip.protocol() != kIpProtocolUdp) return DropReason::kNotRoce;
  if (ip.total_length() < Ipv4::kBytes) return DropReason::kBadLength;
  if (ip.total_length() > rest.size()) return DropReason::kTooShort;
  packet.traffic_class = ip.tos();
  packet.source_gid = ip.source();
  packet.dest_gid = ip.dest();
  packet.ip = rest.first(ip.total_length());
  address_sum = ip.address_sum();
  rest = packet.ip.subspan(Ipv4::kBytes);
  return {};
}

Drop parse_ipv6(Bytes& rest, ParsedPacket& packet, uint64_t& address_sum) {
  if (rest.size() < Ipv6::kBytes) return DropReason::kTooShort;
  const Ipv6 ip(rest.data());
  if (ip.version() != Ipv6::kVersion) return DropReason::kBadIpHeader;
  if (ip.next_header() != kIpProtocolUdp) return DropReason::kNotRoce;
  if (ip.payload_length() > rest.size() - Ipv6::kBytes) return DropReason::kTooShort;
  packet.traffic_class = ip.traffic_class();
  packet.source_gid = ip.source();
  packet.dest_gid = ip.dest();
  packet.ip = rest.first(Ipv6::kBytes + ip.payload_length());
  address_sum = ip.address_sum();
  rest = packet.ip.subspan(Ipv6::kBytes);
  return {};
}

Drop parse_udp(Bytes& rest, ParsedPacket& packet, uint64_t address_sum) {
  if (rest.size() < Udp::kBytes) return DropReason::kBadLength;
  const Udp udp(rest.data());
  if (udp.dest_port() != kRoceUdpPort) return DropReason::kNotRoce;
  if (udp.length() != rest.size()) return DropReason::kBadLength;
  if (udp.checksum() != 0 && !udp.checksum_right(address_sum)) return DropReason::kBadUdpChecksum;
  packet.source_port = udp.source_port();
  rest = rest.subspan(Udp::kBytes);
  return {};
}

// The caller has checked that info->header_bytes are there.
void parse_extended(const uint8_t* bytes, ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  if (info.has_deth) {
    const DethView deth(bytes);
    packet.qkey = deth.qkey();
    packet.source_qpn = deth.source_qpn();
    bytes += deth.kBytes;
  }
  if (info.has_reth) {
    const RethView reth(bytes);
    packet.va = reth.va();
    packet.rkey = reth.rkey();
    packet.dma_length = reth.dma_length();
    bytes += reth.kBytes;
  }
  if (info.has_atomic_eth) {
    const AtomicEthView atomic(bytes);
    packet.va = atomic.va();
    packet.rkey = atomic.rkey();
    packet.swap_add = atomic.swap_add();
    packet.compare = atomic.compare();
    bytes += atomic.kBytes;
  }
  if (info.has_aeth) {
    const AethView aeth(bytes);
    packet.syndrome = aeth.syndrome();
    packet.msn = aeth.msn();
    bytes += aeth.kBytes;
  }
  if (info.has_atomic_ack_eth) packet.atomic_original = AtomicAckEthView(bytes).original();
  if (info.has_imm || info.has_ieth) packet.imm_wire = ImmDtView(bytes).imm_wire();
  if (info.has_ieth) packet.invalidate_rkey = IethView(bytes).rkey();
}

Drop parse_transport(Bytes rest, ParsedPacket& packet) {
  if (rest.size() < Bth::kBytes + kIcrcBytes) return DropReason::kBadLength;
  const Bth bth(rest.data());
  if (bth.transport_version() != 0) return DropReason::kBadTransportVersion;
  const OpcodeInfo& info = opcode_info(bth.opcode());
  if (!info.known()) return DropReason::kUnknownOpcode;
  if (rest.size() < info.header_bytes + kIcrcBytes) return DropReason::kBadLength;
  const size_t padded_bytes = rest.size() - info.header_bytes - kIcrcBytes;
  // Payload and pad together are whole 4-byte words, which also makes PadCnt the only one possible
  // and, without a payload, 0 (IBTA vol. 1 ch. 9.2.4).
  if (padded_bytes % 4 != 0 || padded_bytes < bth.pad_count()) return DropReason::kBadLength;
  if (!info.has_payload && padded_bytes != 0) return DropReason::kBadLength;

  packet.info = &info;
  packet.opcode = bth.opcode();
  packet.solicited = bth.solicited();
  packet.mig_req = bth.mig_req();
  packet.ack_req = bth.ack_req();
  packet.becn = bth.becn();
  packet.pkey = bth.pkey();
  packet.dest_qpn = bth.dest_qpn();
  packet.psn = bth.psn();
  parse_extended(rest.data() + Bth::kBytes, packet);
  packet.payload = rest.subspan(info.header_bytes, padded_bytes - bth.pad_count());
  return {};
}

Drop parse_into(Bytes rest, ParsedPacket& packet) {
  uint16_t ether_type = 0;
  uint64_t address_sum = 0;
  if (const Drop drop = parse_ethernet(rest, packet, ether_type)) return drop;
  if (ether_type == kEtherTypeIpv4) {
    if (const Drop drop = parse_ipv4(rest, packet, address_sum)) return drop;
  } else if (ether_type == kEtherTypeIpv6) {
    if (const Drop drop = parse_ipv6(rest, packet, address_sum)) return drop;
  } else {
    return DropReason::kNotForUs;
  }
  packet.ecn = packet.traffic_class & 3;
  if (const Drop drop = parse_udp(rest, packet, address_sum)) return drop;
  return parse_transport(rest, packet);
}

}  // namespace

std::variant<ParsedPacket, DropReason> parse(std::span<const uint8_t> frame) {
  std::variant<ParsedPacket, DropReason> result;
  if (const Drop drop = parse_into(frame, *std::get_if<ParsedPacket>(&result))) result = *drop;
  return result;
}

bool icrc_valid(const ParsedPacket& packet) {
  const size_t covered = packet.ip.size() - kIcrcBytes;
  uint32_t received;
  std::memcpy(&received, packet.ip.data() + covered, sizeof received);
  return received == icrc(packet.ip.first(covered));
}

}  // namespace verbena::wire
