// The invariant CRC of RoCEv2 (IBTA Annex A17.3.3): CRC-32 over the packet from the IP header to
// the end of the pad, with the fields that routers change replaced by ones.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::wire {

inline constexpr uint32_t kIcrcBytes = 4;

// `ip` runs from the first byte of the IPv4 (20 bytes) or IPv6 (40 bytes) header to the byte before
// the ICRC, and holds at least IP, UDP and BTH. The bytes are not changed. The result is stored on
// the wire least significant byte first.
uint32_t icrc(std::span<const uint8_t> ip);

// Writes icrc(ip) into the 4 bytes at `out`, in wire order.
void store_icrc(uint8_t* out, std::span<const uint8_t> ip);

}  // namespace verbena::wire
