#include "tools/conformance/frame_edit.h"

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
  size_t udp = 0;
  size_t bth = 0;
  size_t end = 0;  // of the IP packet, as its header says; the frame may be shorter
};

std::optional<Layout> layout_of(Bytes frame) {
  Layout at;
  at.ip = wire::EthernetView<const uint8_t>::kBytes;
  if (frame.size() < at.ip + wire::VlanView<const uint8_t>::kBytes) return std::nullopt;
  uint16_t ether_type = load_be16(frame.data() + 12);
  if (ether_type == wire::kEtherTypeVlan) {
    ether_type = load_be16(frame.data() + 16);
    at.ip += wire::VlanView<const uint8_t>::kBytes;
  }
  const bool ipv6 = ether_type == wire::kEtherTypeIpv6;
  if (!ipv6 && ether_type != wire::kEtherTypeIpv4) return std::nullopt;
  at.udp = at.ip +
           (ipv6 ? wire::Ipv6View<const uint8_t>::kBytes : wire::Ipv4View<const uint8_t>::kBytes);
  at.bth = at.udp + wire::UdpView<const uint8_t>::kBytes;
  if (frame.size() < at.bth + wire::BthView<const uint8_t>::kBytes) return std::nullopt;
  const uint8_t protocol = frame[at.ip + (ipv6 ? 6 : 9)];
  if (protocol != wire::kIpProtocolUdp) return std::nullopt;
  if (load_be16(frame.data() + at.udp + 2) != kRoceUdpPort) return std::nullopt;
  at.end = ipv6 ? at.udp + load_be16(frame.data() + at.ip + 4)
                : at.ip + load_be16(frame.data() + at.ip + 2);
  return at;
}

// The sum of a UDP datagram's words, its checksum left out. The words of the pseudo header do not
// change, so they are left out too.
uint64_t datagram_sum(Bytes frame, const Layout& at) {
  const size_t checksum = at.udp + 6;
  return wire::internet_sum(frame.data() + at.udp, 6) +
         wire::internet_sum(frame.data() + checksum + 2, at.end - checksum - 2);
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
  // The total must stay what it was, right or wrong (RFC 1624).
  const uint16_t without = wire::internet_fold(datagram_sum(frame, at));
  checksum = wire::internet_fold(before.datagram + checksum + static_cast<uint16_t>(~without));
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
