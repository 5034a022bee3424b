#include "tools/conformance/frame_edit.h"

#include <algorithm>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ip.h"
#include "stack/wire/opcode.h"
#include "stack/wire/udp.h"

namespace verbena::conformance {
namespace {

using Bytes = std::span<const uint8_t>;

struct Layout {
  size_t ip = 0;
  bool ipv6 = false;
  size_t udp = 0;
  size_t bth = 0;
  size_t end = 0;  // of the IP packet, as its header says; the frame may be shorter
};

// `ip` and `ipv6`; the header itself may be cut.
std::optional<Layout> ip_layout_of(Bytes frame) {
  Layout at;
  at.ip = wire::EthernetView<const uint8_t>::kBytes;
  if (frame.size() < at.ip + wire::VlanView<const uint8_t>::kBytes) return std::nullopt;
  uint16_t ether_type = load_be16(frame.data() + 12);
  if (ether_type == wire::kEtherTypeVlan) {
    ether_type = load_be16(frame.data() + 16);
    at.ip += wire::VlanView<const uint8_t>::kBytes;
  }
  at.ipv6 = ether_type == wire::kEtherTypeIpv6;
  if (!at.ipv6 && ether_type != wire::kEtherTypeIpv4) return std::nullopt;
  return at;
}

size_t ip_bytes(const Layout& at) {
  return at.ipv6 ? wire::Ipv6View<const uint8_t>::kBytes : wire::Ipv4View<const uint8_t>::kBytes;
}

std::optional<Layout> layout_of(Bytes frame) {
  std::optional<Layout> found = ip_layout_of(frame);
  if (!found) return std::nullopt;
  Layout& at = *found;
  at.udp = at.ip + ip_bytes(at);
  at.bth = at.udp + wire::UdpView<const uint8_t>::kBytes;
  if (frame.size() < at.bth + wire::BthView<const uint8_t>::kBytes) return std::nullopt;
  const int version = at.ipv6 ? wire::Ipv6View<const uint8_t>::kVersion
                              : wire::Ipv4View<const uint8_t>::kVersionIhl >> 4;
  if (frame[at.ip] >> 4 != version) return std::nullopt;  // the other header may not fit
  const uint8_t protocol = frame[at.ip + (at.ipv6 ? 6 : 9)];
  if (protocol != wire::kIpProtocolUdp) return std::nullopt;
  if (load_be16(frame.data() + at.udp + 2) != kRoceUdpPort) return std::nullopt;
  at.end = at.ipv6 ? at.udp + load_be16(frame.data() + at.ip + 4)
                   : at.ip + load_be16(frame.data() + at.ip + 2);
  return found;
}

// Where the two addresses of an IP header begin, and how long each is.
size_t addresses_at(const Layout& at) {
  return at.ip + (at.ipv6 ? 8 : 12);
}
size_t address_bytes(const Layout& at) {
  return at.ipv6 ? 16 : 4;
}

// The sum of a UDP datagram's words and those of its addresses, its checksum left out. The other
// words of the pseudo header do not change.
uint64_t datagram_sum(Bytes frame, const Layout& at) {
  const size_t checksum = at.udp + 6;
  return wire::internet_sum(frame.data() + addresses_at(at), 2 * address_bytes(at)) +
         wire::internet_sum(frame.data() + at.udp, 6) +
         wire::internet_sum(frame.data() + checksum + 2, at.end - checksum - 2);
}

// The checksum that gives the same total when the other words' sum has become `after`: right stays
// right, and wrong wrong (RFC 1624).
uint16_t adjusted(uint16_t checksum, uint64_t before, uint64_t after) {
  return wire::internet_fold(before + checksum +
                             static_cast<uint16_t>(~wire::internet_fold(after)));
}

// What ICRC and checksum were before the edit.
struct Sums {
  uint32_t icrc_error = 0;  // stored exclusive-or right
  uint64_t datagram = 0;
};

bool has_sums(Bytes frame, const Layout& at) {
  return at.end <= frame.size() &&
         at.end >= at.bth + wire::BthView<uint8_t>::kBytes + wire::kIcrcBytes;
}

uint32_t stored_icrc(Bytes frame, const Layout& at) {
  uint32_t stored;
  std::memcpy(&stored, frame.data() + at.end - wire::kIcrcBytes, sizeof stored);
  return stored;
}

uint32_t right_icrc(Bytes frame, const Layout& at) {
  return wire::icrc(frame.subspan(at.ip, at.end - wire::kIcrcBytes - at.ip));
}

void restore_sums(std::vector<uint8_t>& frame, const Layout& at, const Sums& before) {
  const uint32_t icrc = right_icrc(frame, at) ^ before.icrc_error;
  std::memcpy(frame.data() + at.end - wire::kIcrcBytes, &icrc, sizeof icrc);
  uint16_t checksum;
  uint8_t* field = frame.data() + at.udp + 6;
  std::memcpy(&checksum, field, sizeof checksum);
  if (checksum == 0) return;
  checksum = adjusted(checksum, before.datagram, datagram_sum(frame, at));
  if (checksum == 0) checksum = 0xFFFF;
  std::memcpy(field, &checksum, sizeof checksum);
}

// Keys lie in what follows the BTH.
void edit_keys(std::vector<uint8_t>& frame, const Layout& at, const FrameEdit& edit) {
  const OpcodeInfo& info = opcode_info(frame[at.bth]);
  if (!info.known() || frame.size() < at.bth + info.header_bytes) return;
  uint8_t* extended = frame.data() + at.bth + wire::BthView<uint8_t>::kBytes;
  if (edit.rkey && info.has_reth) wire::RethView(extended).set_rkey(*edit.rkey);
  if (edit.rkey && info.has_atomic_eth) wire::AtomicEthView(extended).set_rkey(*edit.rkey);
  if (edit.invalidate_rkey && info.has_ieth) {
    wire::IethView(extended).set_rkey(*edit.invalidate_rkey);
  }
}

void replace_address(uint8_t* address, size_t bytes, const std::vector<Substitute>& hosts) {
  for (const Substitute& host : hosts) {
    const size_t skipped = host.gid.bytes.size() - bytes;
    if (host.gid.is_ipv4() != (bytes == 4)) continue;
    if (!std::equal(address, address + bytes, host.gid.bytes.begin() + skipped)) continue;
    std::copy_n(host.new_gid.bytes.begin() + skipped, bytes, address);
    return;
  }
}

void replace_mac(uint8_t* mac, const std::vector<Substitute>& hosts) {
  for (const Substitute& host : hosts) {
    if (!std::equal(host.mac.bytes.begin(), host.mac.bytes.end(), mac)) continue;
    std::copy(host.new_mac.bytes.begin(), host.new_mac.bytes.end(), mac);
    return;
  }
}

void edit_hosts(std::vector<uint8_t>& frame, const std::vector<Substitute>& hosts) {
  if (hosts.empty() || frame.size() < wire::EthernetView<uint8_t>::kBytes) return;
  replace_mac(frame.data(), hosts);
  replace_mac(frame.data() + 6, hosts);
  const auto at = ip_layout_of(frame);
  if (!at || frame.size() < at->ip + ip_bytes(*at)) return;
  uint8_t* const addresses = frame.data() + addresses_at(*at);
  const size_t bytes = address_bytes(*at);
  const uint64_t before = wire::internet_sum(addresses, 2 * bytes);
  replace_address(addresses, bytes, hosts);
  replace_address(addresses + bytes, bytes, hosts);
  if (at->ipv6) return;
  uint16_t checksum;
  std::memcpy(&checksum, frame.data() + at->ip + 10, sizeof checksum);
  checksum = adjusted(checksum, before, wire::internet_sum(addresses, 2 * bytes));
  std::memcpy(frame.data() + at->ip + 10, &checksum, sizeof checksum);
}

}  // namespace

std::optional<size_t> find_bth(Bytes frame) {
  const auto at = layout_of(frame);
  if (!at) return std::nullopt;
  return at->bth;
}

std::optional<Qpn> dest_qpn_of(Bytes frame) {
  const auto bth = find_bth(frame);
  if (!bth) return std::nullopt;
  return wire::BthView(frame.data() + *bth).dest_qpn();
}

std::vector<uint8_t> edited(Bytes original, const FrameEdit& edit) {
  std::vector<uint8_t> frame(original.begin(), original.end());
  edit_hosts(frame, edit.hosts);
  const auto at = layout_of(original);
  if (!at) return frame;
  Sums before;
  const bool sums = has_sums(original, *at);
  if (sums) {
    before.icrc_error = stored_icrc(original, *at) ^ right_icrc(original, *at);
    before.datagram = datagram_sum(original, *at);
  }
  // Only the three bytes of the QPN: the byte before them is flags.
  if (edit.dest_qpn) store_be24(frame.data() + at->bth + 5, *edit.dest_qpn);
  edit_keys(frame, *at, edit);
  if (sums) restore_sums(frame, *at, before);
  return frame;
}

}  // namespace verbena::conformance
