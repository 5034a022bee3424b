#include "tests/support/golden_frames.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace verbena::test {
namespace {

constexpr GoldenPacket kGoldenPackets[] = {
    {"cnp", kCnpHex},
    {"uc_send_ipv4", kUcSendIpv4Hex},
    {"uc_send_ipv6", kUcSendIpv6Hex},
    {"send_udp_checksum", kSendUdpChecksumHex},
    {"ack", kAckHex},
    {"rnr_nak", kRnrNakHex},
    {"psn_nak", kPsnNakHex},
};

uint8_t digit(char c) {
  return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
}

Bytes with_ethernet(std::span<const uint8_t> ip, std::span<const uint8_t> tag) {
  Bytes frame = from_hex("020000000001020000000002");
  frame.insert(frame.end(), tag.begin(), tag.end());
  const bool ipv6 = ip[0] >> 4 == 6;
  frame.push_back(ipv6 ? 0x86 : 0x08);
  frame.push_back(ipv6 ? 0xDD : 0x00);
  frame.insert(frame.end(), ip.begin(), ip.end());
  return frame;
}

}  // namespace

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  int high = -1;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    if (high < 0) {
      high = digit(c);
    } else {
      bytes.push_back(static_cast<uint8_t>(high << 4 | digit(c)));
      high = -1;
    }
  }
  return bytes;
}

Gid gid_from_hex(std::string_view text) {
  Gid gid;
  const Bytes bytes = from_hex(text);
  std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
  return gid;
}

Bytes ethernet_frame(std::span<const uint8_t> ip) {
  return with_ethernet(ip, {});
}

Bytes vlan_frame(std::span<const uint8_t> ip) {
  constexpr std::array<uint8_t, 4> kTag = {0x81, 0x00, 0x00, 0x01};
  return with_ethernet(ip, kTag);
}

void fix_ip_checksum(Bytes& frame) {
  constexpr size_t kIp = 14;
  if (frame.size() < kIp + 20 || frame[kIp] >> 4 != 4) return;
  frame[kIp + 10] = frame[kIp + 11] = 0;
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) {
    sum += static_cast<uint32_t>(frame[kIp + i] << 8 | frame[kIp + i + 1]);
  }
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  frame[kIp + 10] = static_cast<uint8_t>(~sum >> 8);
  frame[kIp + 11] = static_cast<uint8_t>(~sum);
}

std::span<const GoldenPacket> golden_packets() {
  return kGoldenPackets;
}

}  // namespace verbena::test
