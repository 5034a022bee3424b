// Any bytes as a frame: the parser, the ICRC and the description. What can be read is written again
// from its fields and must read the same; and no single flipped bit may pass the ICRC unless it is
// in a field that the ICRC leaves out.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/describe.h"
#include "stack/wire/emit.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ip.h"
#include "stack/wire/parse.h"
#include "stack/wire/udp.h"
#include "tests/fuzz/input.h"

namespace verbena::fuzz {
namespace {

using wire::PacketSpec;
using wire::ParsedPacket;

bool inside(std::span<const uint8_t> part, std::span<const uint8_t> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

wire::Path path_of(const ParsedPacket& packet) {
  wire::Path path;
  path.source_mac = packet.source_mac;
  path.dest_mac = packet.dest_mac;
  path.source_gid = packet.source_gid;
  path.dest_gid = packet.dest_gid;
  path.source_port = packet.source_port;
  path.traffic_class = packet.traffic_class;
  return path;
}

PacketSpec spec_of(const ParsedPacket& packet, const wire::Path& path) {
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = static_cast<Opcode>(packet.opcode);
  spec.solicited = packet.solicited;
  spec.ack_req = packet.ack_req;
  spec.mig_req = packet.mig_req;
  spec.becn = packet.becn;
  spec.pkey = packet.pkey;
  spec.dest_qpn = packet.dest_qpn;
  spec.psn = packet.psn;
  spec.va = packet.va;
  spec.rkey = packet.rkey;
  spec.dma_length = packet.dma_length;
  spec.swap_add = packet.swap_add;
  spec.compare = packet.compare;
  spec.syndrome = packet.syndrome;
  spec.msn = packet.msn;
  spec.atomic_original = packet.atomic_original;
  spec.imm_wire = packet.imm_wire;
  spec.invalidate_rkey = packet.invalidate_rkey;
  spec.qkey = packet.qkey;
  spec.source_qpn = packet.source_qpn;
  spec.payload_bytes = static_cast<uint32_t>(packet.payload.size());
  return spec;
}

bool same(const ParsedPacket& a, const ParsedPacket& b) {
  return a.info == b.info && a.opcode == b.opcode && a.solicited == b.solicited &&
         a.mig_req == b.mig_req && a.ack_req == b.ack_req && a.becn == b.becn && a.ecn == b.ecn &&
         a.traffic_class == b.traffic_class && a.pkey == b.pkey && a.dest_qpn == b.dest_qpn &&
         a.psn == b.psn && a.source_mac == b.source_mac && a.dest_mac == b.dest_mac &&
         a.source_gid == b.source_gid && a.dest_gid == b.dest_gid &&
         a.source_port == b.source_port && a.va == b.va && a.rkey == b.rkey &&
         a.dma_length == b.dma_length && a.swap_add == b.swap_add && a.compare == b.compare &&
         a.syndrome == b.syndrome && a.msn == b.msn && a.atomic_original == b.atomic_original &&
         a.imm_wire == b.imm_wire && a.invalidate_rkey == b.invalidate_rkey && a.qkey == b.qkey &&
         a.source_qpn == b.source_qpn && std::ranges::equal(a.payload, b.payload);
}

std::vector<uint8_t> write_again(const ParsedPacket& packet) {
  const wire::Path path = path_of(packet);
  const PacketSpec spec = spec_of(packet, path);
  std::vector<uint8_t> frame(wire::frame_bytes(spec));
  uint8_t* payload = wire::emit_headers(spec, frame.data());
  std::copy(packet.payload.begin(), packet.payload.end(), payload);
  wire::finish(spec, frame.data());
  return frame;
}

// `at` counts from the IP header of a packet as written by write_again().
bool covered_by_icrc(size_t at, bool ipv4) {
  using V4 = wire::Ipv4View<uint8_t>;
  using V6 = wire::Ipv6View<uint8_t>;
  const size_t udp = ipv4 ? V4::kBytes : V6::kBytes;
  const size_t udp_checksum = udp + 6;
  const size_t bth_reserved = udp + wire::UdpView<uint8_t>::kBytes + 4;
  if (at == udp_checksum || at == udp_checksum + 1 || at == bth_reserved) return false;
  if (ipv4) return at != 1 && at != 8 && at != 10 && at != 11;  // ToS, TTL, header checksum
  return at > 3 && at != 7;                                     // class and flow label, hop limit
}

void check_flipped_bit(std::vector<uint8_t> frame, bool ipv4, uint32_t choice) {
  const size_t ip = wire::EthernetView<uint8_t>::kBytes;
  const size_t at = choice / 8 % (frame.size() - ip);
  if (!covered_by_icrc(at, ipv4)) return;
  frame[ip + at] ^= static_cast<uint8_t>(1U << choice % 8);
  const auto parsed = wire::parse(frame);
  const auto* packet = std::get_if<ParsedPacket>(&parsed);
  require(packet == nullptr || !wire::icrc_valid(*packet), "a flipped bit passed the ICRC");
}

void check_frame(std::span<const uint8_t> frame) {
  require(!wire::describe(frame).empty(), "every frame has a description");
  const auto parsed = wire::parse(frame);
  const auto* packet = std::get_if<ParsedPacket>(&parsed);
  if (packet == nullptr) return;
  require(packet->info != nullptr && packet->info->known(), "the opcode is known");
  require(inside(packet->ip, frame), "the packet lies inside the frame");
  require(inside(packet->payload, packet->ip), "the payload lies inside the packet");
  require(packet->payload.data() + packet->payload.size() + wire::kIcrcBytes <=
              packet->ip.data() + packet->ip.size(),
          "the payload ends before the ICRC");
  (void)wire::icrc_valid(*packet);
  // A path is IPv4 or IPv6: addresses of both kinds in one packet cannot be written.
  const bool ipv4 = packet->dest_gid.is_ipv4();
  if (packet->source_gid.is_ipv4() != ipv4) return;
  const std::vector<uint8_t> again = write_again(*packet);
  const auto reparsed = wire::parse(again);
  const auto* copy = std::get_if<ParsedPacket>(&reparsed);
  require(copy != nullptr, "what was written can be read");
  require(same(*packet, *copy), "what was written reads the same");
  require(wire::icrc_valid(*copy), "what was written has a right ICRC");
  const uint32_t choice = wire::icrc(packet->ip.first(packet->ip.size() - wire::kIcrcBytes));
  check_flipped_bit(again, ipv4, choice);
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::check_frame({data, size});
  return 0;
}
