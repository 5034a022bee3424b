// The ICRC against packets of real adapters and against a bit-by-bit CRC written here.
#include "stack/wire/icrc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "stack/wire/parse.h"
#include "tests/support/golden_frames.h"

namespace verbena::wire {
namespace {

using test::Bytes;
using test::GoldenPacket;

// Offsets from the IP header that routers may change. IPv4: ToS, TTL, checksum; IPv6: traffic
// class, flow label, hop limit; both: UDP checksum, BTH byte 4.
std::set<size_t> masked_offsets(bool ipv6) {
  if (ipv6) return {1, 2, 3, 7, 46, 47, 52};  // and the low half of byte 0
  return {1, 8, 10, 11, 26, 27, 32};
}

uint32_t reference_icrc(Bytes ip) {
  const bool ipv6 = ip[0] >> 4 == 6;
  for (const size_t offset : masked_offsets(ipv6)) ip[offset] = 0xFF;
  if (ipv6) ip[0] |= 0x0F;
  ip.insert(ip.begin(), 8, 0xFF);
  uint32_t crc = 0xFFFFFFFF;
  for (const uint8_t byte : ip) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

uint32_t stored_icrc(const Bytes& ip) {
  const uint8_t* p = ip.data() + ip.size() - 4;
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

TEST(Icrc, GoldenPackets) {
  for (const GoldenPacket& golden : test::golden_packets()) {
    const Bytes ip = test::from_hex(golden.hex);
    EXPECT_EQ(icrc(std::span(ip).first(ip.size() - 4)), stored_icrc(ip)) << golden.name;
  }
}

TEST(Icrc, StoredLeastSignificantByteFirst) {
  const Bytes ip = test::from_hex(test::kUcSendIpv4Hex);
  Bytes out(4);
  store_icrc(out.data(), std::span(ip).first(ip.size() - 4));
  EXPECT_EQ(out, test::from_hex("78f353f3"));
}

TEST(Icrc, LeavesThePacketAsItIs) {
  const Bytes before = test::from_hex(test::kCnpHex);
  Bytes ip = before;
  icrc(std::span(ip).first(ip.size() - 4));
  EXPECT_EQ(ip, before);
}

TEST(Icrc, EveryLengthAgreesWithTheBitwiseReference) {
  std::mt19937 random(1);
  for (const bool ipv6 : {false, true}) {
    const size_t least = ipv6 ? 60 : 40;
    for (size_t size = least; size <= least + 4200; size += size < least + 300 ? 1 : 37) {
      Bytes ip(size);
      std::generate(ip.begin(), ip.end(), [&] { return static_cast<uint8_t>(random()); });
      ip[0] = ipv6 ? 0x6A : 0x45;
      ASSERT_EQ(icrc(ip), reference_icrc(ip)) << "size " << size << " ipv6 " << ipv6;
    }
  }
}

TEST(Icrc, MaskedBytesHaveNoInfluenceAllOthersHave) {
  for (const GoldenPacket& golden : test::golden_packets()) {
    const Bytes ip = test::from_hex(golden.hex);
    const bool ipv6 = ip[0] >> 4 == 6;
    const std::set<size_t> masked = masked_offsets(ipv6);
    for (size_t bit = 8; bit < (ip.size() - 4) * 8; ++bit) {  // byte 0 says which rule holds
      Bytes flipped = ip;
      flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      const bool same = icrc(std::span(flipped).first(ip.size() - 4)) == stored_icrc(ip);
      ASSERT_EQ(same, masked.contains(bit / 8)) << golden.name << " bit " << bit;
    }
  }
}

// What a receiver sees: a flipped bit is caught by the parser or by the ICRC, unless it is masked.
TEST(Icrc, EveryFlippedBitIsCaught) {
  size_t masked_and_passed = 0;
  for (const GoldenPacket& golden : test::golden_packets()) {
    const Bytes ip = test::from_hex(golden.hex);
    const bool ipv6 = ip[0] >> 4 == 6;
    for (size_t bit = 0; bit < ip.size() * 8; ++bit) {
      Bytes flipped = ip;
      flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      Bytes frame = test::ethernet_frame(ip);
      std::copy(flipped.begin(), flipped.end(), frame.begin() + 14);
      const auto parsed = parse(frame);
      const auto* packet = std::get_if<ParsedPacket>(&parsed);
      if (packet == nullptr || !icrc_valid(*packet)) continue;
      const bool masked = masked_offsets(ipv6).contains(bit / 8) || (ipv6 && bit < 4);
      EXPECT_TRUE(masked) << golden.name << " bit " << bit;
      ++masked_and_passed;
    }
  }
  EXPECT_GT(masked_and_passed, 0U);
}

TEST(Icrc, GoldenFramesAreValidAfterParsing) {
  for (const GoldenPacket& golden : test::golden_packets()) {
    const Bytes ip = test::from_hex(golden.hex);
    for (const Bytes& frame : {test::ethernet_frame(ip), test::vlan_frame(ip)}) {
      const auto parsed = parse(frame);
      ASSERT_TRUE(std::holds_alternative<ParsedPacket>(parsed)) << golden.name;
      EXPECT_TRUE(icrc_valid(std::get<ParsedPacket>(parsed))) << golden.name;
    }
  }
}

}  // namespace
}  // namespace verbena::wire
