#include "stack/wire/emit.h"

#include <cstring>

#include "stack/base/assert.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ip.h"
#include "stack/wire/udp.h"

namespace verbena::wire {
namespace {

using OutEthernet = EthernetView<uint8_t>;
using OutIpv4 = Ipv4View<uint8_t>;
using OutIpv6 = Ipv6View<uint8_t>;
using OutUdp = UdpView<uint8_t>;
using OutBth = BthView<uint8_t>;

constexpr uint32_t pad_bytes(uint32_t payload_bytes) {
  return -payload_bytes & 3;
}

bool over_ipv4(const Path& path) {
  return path.dest_gid.is_ipv4();
}

uint32_t ip_header_bytes(const Path& path) {
  return over_ipv4(path) ? OutIpv4::kBytes : OutIpv6::kBytes;
}

// From the UDP header to the end of the ICRC.
uint32_t udp_length(const PacketSpec& spec) {
  return OutUdp::kBytes + opcode_info(spec.opcode).header_bytes + spec.payload_bytes +
         pad_bytes(spec.payload_bytes) + kIcrcBytes;
}

uint8_t* emit_ipv4(const PacketSpec& spec, uint16_t udp_bytes, uint8_t* bytes) {
  const Path& path = *spec.path;
  OutIpv4(bytes).set(path.traffic_class, static_cast<uint16_t>(OutIpv4::kBytes + udp_bytes),
                     spec.ip_id, path.hop_limit, path.source_gid, path.dest_gid);
  return bytes + OutIpv4::kBytes;
}

uint8_t* emit_ipv6(const PacketSpec& spec, uint16_t udp_bytes, uint8_t* bytes) {
  const Path& path = *spec.path;
  OutIpv6 ip(bytes);
  ip.set_version_class_flow(path.traffic_class, path.flow_label);
  ip.set_payload_length(udp_bytes);
  ip.set_next_header(kIpProtocolUdp);
  ip.set_hop_limit(path.hop_limit);
  ip.set_source(path.source_gid);
  ip.set_dest(path.dest_gid);
  return bytes + OutIpv6::kBytes;
}

uint8_t* emit_udp(const PacketSpec& spec, uint16_t udp_bytes, uint8_t* bytes) {
  OutUdp udp(bytes);
  udp.set_source_port(spec.path->source_port);
  udp.set_dest_port(kRoceUdpPort);
  udp.set_length(udp_bytes);
  udp.set_checksum(0);  // the ICRC covers the datagram (Annex A17)
  return bytes + OutUdp::kBytes;
}

uint8_t* emit_bth(const PacketSpec& spec, uint8_t* bytes) {
  OutBth bth(bytes);
  bth.set_opcode(static_cast<uint8_t>(spec.opcode));
  bth.set_flags(spec.solicited, spec.mig_req, static_cast<uint8_t>(pad_bytes(spec.payload_bytes)));
  bth.set_pkey(spec.pkey);
  bth.set_becn_dest_qpn(spec.becn, spec.dest_qpn);
  bth.set_ack_req_psn(spec.ack_req, spec.psn);
  return bytes + OutBth::kBytes;
}

void emit_extended(const PacketSpec& spec, const OpcodeInfo& info, uint8_t* bytes) {
  if (info.has_deth) {
    DethView deth(bytes);
    deth.set_qkey(spec.qkey);
    deth.set_source_qpn(spec.source_qpn);
    bytes += deth.kBytes;
  }
  if (info.has_reth) {
    RethView reth(bytes);
    reth.set_va(spec.va);
    reth.set_rkey(spec.rkey);
    reth.set_dma_length(spec.dma_length);
    bytes += reth.kBytes;
  }
  if (info.has_atomic_eth) {
    AtomicEthView atomic(bytes);
    atomic.set_va(spec.va);
    atomic.set_rkey(spec.rkey);
    atomic.set_swap_add(spec.swap_add);
    atomic.set_compare(spec.compare);
    bytes += atomic.kBytes;
  }
  if (info.has_aeth) {
    AethView aeth(bytes);
    aeth.set_syndrome_msn(spec.syndrome, spec.msn);
    bytes += aeth.kBytes;
  }
  if (info.has_atomic_ack_eth) AtomicAckEthView(bytes).set_original(spec.atomic_original);
  if (info.has_imm) ImmDtView(bytes).set_imm_wire(spec.imm_wire);
  if (info.has_ieth) IethView(bytes).set_rkey(spec.invalidate_rkey);
}

}  // namespace

uint32_t frame_bytes(const PacketSpec& spec) {
  return OutEthernet::kBytes + ip_header_bytes(*spec.path) + udp_length(spec);
}

uint8_t* emit_headers(const PacketSpec& spec, uint8_t* frame) {
  const OpcodeInfo& info = opcode_info(spec.opcode);
  VERBENA_ASSERT(info.known() && (info.has_payload || spec.payload_bytes == 0));
  const bool ipv4 = over_ipv4(*spec.path);
  const auto udp_bytes = static_cast<uint16_t>(udp_length(spec));

  OutEthernet ethernet(frame);
  ethernet.set_dest(spec.path->dest_mac);
  ethernet.set_source(spec.path->source_mac);
  ethernet.set_ether_type(ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  uint8_t* bytes = frame + OutEthernet::kBytes;
  bytes = ipv4 ? emit_ipv4(spec, udp_bytes, bytes) : emit_ipv6(spec, udp_bytes, bytes);
  uint8_t* const transport = emit_udp(spec, udp_bytes, bytes);
  bytes = emit_bth(spec, transport);
  uint8_t* const payload = transport + info.header_bytes;
  if (info.operation == Operation::kCnp) {
    std::memset(bytes, 0, static_cast<size_t>(payload - bytes));
  } else {
    emit_extended(spec, info, bytes);
  }
  return payload;
}

void finish(const PacketSpec& spec, uint8_t* frame) {
  uint8_t* const icrc_at = frame + frame_bytes(spec) - kIcrcBytes;
  const uint32_t pad = pad_bytes(spec.payload_bytes);
  std::memset(icrc_at - pad, 0, pad);
  const uint8_t* const ip = frame + OutEthernet::kBytes;
  store_icrc(icrc_at, {ip, static_cast<size_t>(icrc_at - ip)});
}

uint16_t udp_source_port(uint32_t flow_label, Qpn local, Qpn remote) {
  uint32_t label = flow_label & 0xFFFFF;
  if (label == 0) {
    uint64_t product = uint64_t{local} * remote;
    product ^= product >> 20;
    product ^= product >> 40;
    label = static_cast<uint32_t>(product & 0xFFFFF);
  }
  return static_cast<uint16_t>(0xC000 | ((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)));
}

}  // namespace verbena::wire
