// The small types that every part of the stack shares.
//
// Addresses are kept as the bytes on the wire (network order). Numbers are host order.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace verbena {

using Qpn = uint32_t;       // 24 bits; 0 and 1 are special (SMI, GSI), 0xFFFFFF is multicast
using Key = uint32_t;       // lkey or rkey: index in bits 31:8, variant in bits 7:0
using PdId = uint32_t;      // protection domain
using CqId = uint32_t;      // completion queue
using SrqId = uint32_t;     // shared receive queue
using AhId = uint32_t;      // address handle
using ClientId = uint32_t;  // one control connection: one opened device in one process

inline constexpr Qpn kMulticastQpn = 0xFFFFFF;
inline constexpr uint16_t kRoceUdpPort = 4791;

struct MacAddr {
  std::array<uint8_t, 6> bytes{};
  auto operator<=>(const MacAddr&) const = default;
};

// A GID is an IPv6 address; an IPv4 address a.b.c.d is ::ffff:a.b.c.d (RoCEv2, Annex A17).
struct Gid {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Gid&) const = default;

  static Gid from_ipv4(uint32_t host_order) {
    Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xFF;
    for (unsigned i = 0; i < 4; ++i) {
      gid.bytes[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
    }
    return gid;
  }
  bool is_ipv4() const {
    for (unsigned i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xFF && bytes[11] == 0xFF;
  }
  uint32_t ipv4() const {  // host order
    return static_cast<uint32_t>(bytes[12]) << 24 | static_cast<uint32_t>(bytes[13]) << 16 |
           static_cast<uint32_t>(bytes[14]) << 8 | bytes[15];
  }
  bool is_zero() const { return *this == Gid{}; }
};

// The path MTU in the wire's and the verbs' coding: 1 = 256 ... 5 = 4096 bytes.
enum class PathMtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr uint32_t mtu_bytes(PathMtu mtu) {
  return 128U << static_cast<unsigned>(mtu);
}
constexpr bool mtu_valid(unsigned code) {
  return code >= 1 && code <= 5;
}

enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4 };  // the numbers of enum ibv_qp_type
// The numbers of enum ibv_qp_state.
enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };

}  // namespace verbena
