// DeviceIdentity: what the world sees of one device: name, addresses, vendor.
//
// MAC and GUID derive from the IPv4 address, so they are the same after every start: the MAC is
// 02:56:42 (locally administered) and the last three bytes of the address; the GUID is the MAC's
// EUI-64.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stack/config.h"
#include "stack/types.h"

namespace verbena {

inline constexpr uint32_t kOwnVendorId = 0x56424E;
inline constexpr uint32_t kOwnPartId = 1;
inline constexpr uint32_t kHwVersion = 1;
inline constexpr uint32_t kGidTableLen = 8;
inline constexpr uint32_t kPkeyTableLen = 1;

struct DeviceIdentity {
  std::string name;
  uint32_t ip = 0;  // IPv4, host order
  uint32_t vendor_id = kOwnVendorId;
  uint32_t part_id = kOwnPartId;
  bool mig_req = true;  // DeviceConfig::mig_req

  MacAddr mac() const;
  Gid gid() const { return Gid::from_ipv4(ip); }
  std::array<uint8_t, 8> guid() const;  // network order

  std::string ip_text() const;
  std::string mac_text() const;
  std::string guid_text() const;  // "0056:42ff:fe63:0001"
};

// "fe80:0000:...": 8 groups of 4 digits, the form of the kernel's gids files.
std::string gid_text(const Gid& gid);

// The engine's configuration of `self`, which reaches `peer` without asking.
DeviceConfig device_config(const DeviceIdentity& self, const DeviceIdentity& peer);

}  // namespace verbena
