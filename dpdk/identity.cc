#include "dpdk/identity.h"

#include <fmt/format.h>

namespace verbena {

MacAddr DeviceIdentity::mac() const {
  return MacAddr{{0x02, 0x56, 0x42, static_cast<uint8_t>(ip >> 16), static_cast<uint8_t>(ip >> 8),
                  static_cast<uint8_t>(ip)}};
}

std::array<uint8_t, 8> DeviceIdentity::guid() const {
  const auto m = mac().bytes;
  // EUI-64: FF-FE in the middle, the universal/local bit inverted.
  return {static_cast<uint8_t>(m[0] ^ 0x02), m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]};
}

std::string DeviceIdentity::ip_text() const {
  return fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

std::string DeviceIdentity::mac_text() const {
  const auto m = mac().bytes;
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4],
                     m[5]);
}

std::string DeviceIdentity::guid_text() const {
  const auto g = guid();
  return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", g[0], g[1], g[2], g[3],
                     g[4], g[5], g[6], g[7]);
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  return text;
}

DeviceConfig device_config(const DeviceIdentity& self, const DeviceIdentity& peer) {
  DeviceConfig config;
  config.mac = self.mac();
  config.gids = {self.gid()};
  config.neighbors = {Neighbor{peer.gid(), peer.mac()}};
  config.seed = self.ip;
  config.mig_req = self.mig_req;
  return config;
}

}  // namespace verbena
