#include "stack/wire/icrc.h"

#include <isa-l/crc.h>

#include <cstring>

#include "stack/wire/bth.h"
#include "stack/wire/ip.h"
#include "stack/wire/udp.h"

namespace verbena::wire {
namespace {

// The CRC-32 of the 8 bytes of ones that stand for the LRH (Annex A17.3.3): they are the same for
// every packet, so the computation starts behind them.
constexpr uint32_t kSeed = 0x2144DF1C;

// Both tables of this CRC live in ISA-L; the masked header goes through a copy of its own, and the
// rest of the packet is read where it lies.
template <template <typename> typename IpView>
uint32_t icrc_after(std::span<const uint8_t> ip) {
  constexpr uint32_t kUdpAt = IpView<uint8_t>::kBytes;
  constexpr uint32_t kBthAt = kUdpAt + UdpView<uint8_t>::kBytes;
  constexpr uint32_t kHeadBytes = kBthAt + BthView<uint8_t>::kBytes;

  alignas(64) uint8_t head[kHeadBytes];
  std::memcpy(head, ip.data(), kHeadBytes);
  IpView<uint8_t>(head).mask_variant_fields();
  UdpView<uint8_t>(head + kUdpAt).mask_variant_fields();
  BthView<uint8_t>(head + kBthAt).mask_variant_fields();
  const uint32_t crc = crc32_gzip_refl(kSeed, head, kHeadBytes);
  const std::span<const uint8_t> rest = ip.subspan(kHeadBytes);
  return crc32_gzip_refl(crc, rest.data(), rest.size());
}

}  // namespace

uint32_t icrc(std::span<const uint8_t> ip) {
  if (ip[0] >> 4 == Ipv6View<const uint8_t>::kVersion) return icrc_after<Ipv6View>(ip);
  return icrc_after<Ipv4View>(ip);
}

void store_icrc(uint8_t* out, std::span<const uint8_t> ip) {
  const uint32_t value = icrc(ip);  // least significant byte first, as it lies in memory
  std::memcpy(out, &value, sizeof value);
}

}  // namespace verbena::wire
