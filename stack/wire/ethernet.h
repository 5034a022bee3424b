// Views of the Ethernet header and of one 802.1Q tag.
//
// A view is a pointer with a name for each field: it checks nothing and owns nothing. Whoever makes
// one guarantees kBytes readable bytes (writable ones for the setters, which exist only for views
// of non-const bytes). This holds for all views in wire/.
#pragma once

#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/types.h"

namespace verbena::wire {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;

template <typename Byte>
class EthernetView {
 public:
  static constexpr uint32_t kBytes = 14;

  explicit EthernetView(Byte* bytes) : bytes_(bytes) {}

  MacAddr dest() const { return mac_at(0); }
  MacAddr source() const { return mac_at(6); }
  uint16_t ether_type() const { return load_be16(bytes_ + 12); }

  void set_dest(const MacAddr& mac) { std::memcpy(bytes_, mac.bytes.data(), 6); }
  void set_source(const MacAddr& mac) { std::memcpy(bytes_ + 6, mac.bytes.data(), 6); }
  void set_ether_type(uint16_t type) { store_be16(bytes_ + 12, type); }

 private:
  MacAddr mac_at(uint32_t offset) const {
    MacAddr mac;
    std::memcpy(mac.bytes.data(), bytes_ + offset, 6);
    return mac;
  }

  Byte* bytes_;
};

// The tag after an EtherType of kEtherTypeVlan: TCI, then the EtherType of what follows.
template <typename Byte>
class VlanView {
 public:
  static constexpr uint32_t kBytes = 4;

  explicit VlanView(Byte* bytes) : bytes_(bytes) {}

  uint16_t tci() const { return load_be16(bytes_); }
  uint16_t ether_type() const { return load_be16(bytes_ + 2); }

 private:
  Byte* bytes_;
};

}  // namespace verbena::wire
