// The parser: golden frames field by field, each reason to drop, every truncation, hostile lengths.
#include "stack/wire/parse.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "stack/wire/emit.h"
#include "tests/support/golden_frames.h"

namespace verbena::wire {
namespace {

using test::Bytes;
using test::GoldenPacket;

constexpr size_t kIp = 14;           // offset of the IP header
constexpr size_t kUdp4 = kIp + 20;   // of UDP over IPv4
constexpr size_t kBth4 = kUdp4 + 8;  // of the BTH over IPv4

// Parses from a heap block of exactly the frame's size, so that reading past it is caught by
// address sanitizer.
std::variant<ParsedPacket, DropReason> parse_exact(std::span<const uint8_t> frame,
                                                   std::unique_ptr<uint8_t[]>& block) {
  block = std::make_unique<uint8_t[]>(frame.size());
  std::copy(frame.begin(), frame.end(), block.get());
  return parse({block.get(), frame.size()});
}

DropReason reason(std::span<const uint8_t> frame) {
  std::unique_ptr<uint8_t[]> block;
  const auto parsed = parse_exact(frame, block);
  const auto* drop = std::get_if<DropReason>(&parsed);
  return drop == nullptr ? DropReason::kCount : *drop;
}

ParsedPacket parsed(std::span<const uint8_t> frame) {
  const auto result = parse(frame);
  EXPECT_TRUE(std::holds_alternative<ParsedPacket>(result)) << static_cast<int>(reason(frame));
  return std::get<ParsedPacket>(result);
}

Bytes frame_of(std::string_view hex) {
  return test::ethernet_frame(test::from_hex(hex));
}

TEST(ParseGolden, ConnectxCnp) {
  const Bytes frame = frame_of(test::kCnpHex);
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.opcode, 0x81);
  EXPECT_EQ(packet.info, &opcode_info(Opcode::kCnp));
  EXPECT_TRUE(packet.becn);
  EXPECT_FALSE(packet.mig_req);
  EXPECT_EQ(packet.traffic_class, 0xC2);
  EXPECT_EQ(packet.ecn, 2);
  EXPECT_EQ(packet.source_port, 0);
  EXPECT_EQ(packet.dest_qpn, 0x118U);
  EXPECT_EQ(packet.psn, Psn(0));
  EXPECT_EQ(packet.source_gid, Gid::from_ipv4(0x0A001101));
  EXPECT_EQ(packet.dest_gid, Gid::from_ipv4(0x0A001201));
  EXPECT_TRUE(packet.payload.empty());
}

TEST(ParseGolden, UcSendOverIpv4) {
  const Bytes frame = frame_of(test::kUcSendIpv4Hex);
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.opcode, 0x24);
  EXPECT_TRUE(packet.mig_req);
  EXPECT_FALSE(packet.solicited);
  EXPECT_FALSE(packet.ack_req);
  EXPECT_FALSE(packet.becn);
  EXPECT_EQ(packet.pkey, 0xFFFF);
  EXPECT_EQ(packet.dest_qpn, 0xD3U);
  EXPECT_EQ(packet.psn, Psn(0xCF1710));
  EXPECT_EQ(packet.source_port, 49152);
  EXPECT_EQ(packet.ecn, 1);
  EXPECT_EQ(packet.source_mac, (MacAddr{{2, 0, 0, 0, 0, 2}}));
  EXPECT_EQ(packet.dest_mac, (MacAddr{{2, 0, 0, 0, 0, 1}}));
  EXPECT_EQ(Bytes(packet.payload.begin(), packet.payload.end()),
            test::from_hex("4630818be28935d90e9a95505401be885e50"));
  EXPECT_EQ(packet.ip.data(), frame.data() + kIp);
  EXPECT_EQ(packet.ip.size(), 64U);
}

TEST(ParseGolden, UcSendOverIpv6) {
  const Bytes frame = frame_of(test::kUcSendIpv6Hex);
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.traffic_class, 226);
  EXPECT_EQ(packet.ecn, 2);
  EXPECT_EQ(packet.source_gid, test::gid_from_hex("20220000000000000000000000001023"));
  EXPECT_EQ(packet.dest_gid, test::gid_from_hex("20230000000000000000000000001024"));
  EXPECT_EQ(packet.psn, Psn(0xCF1710));
  EXPECT_EQ(packet.payload.size(), 18U);
}

TEST(ParseGolden, SendWithUdpChecksum) {
  const Bytes frame = frame_of(test::kSendUdpChecksumHex);
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.opcode, 0x04);
  EXPECT_FALSE(packet.mig_req);
  EXPECT_TRUE(packet.ack_req);
  EXPECT_EQ(packet.dest_qpn, 0x10203U);
  EXPECT_EQ(packet.psn, Psn(0x112230));
  EXPECT_EQ(Bytes(packet.payload.begin(), packet.payload.end()), test::from_hex("deadbe"));
}

TEST(ParseGolden, Acknowledgements) {
  const struct {
    std::string_view hex;
    uint8_t syndrome;
    uint32_t psn;
  } cases[] = {{test::kAckHex, 0x1F, 0x112235},
               {test::kRnrNakHex, 0x39, 0x112233},
               {test::kPsnNakHex, 0x60, 0x112234}};
  for (const auto& expected : cases) {
    const Bytes frame = frame_of(expected.hex);
    const ParsedPacket packet = parsed(frame);
    EXPECT_EQ(packet.opcode, 0x11);
    EXPECT_EQ(packet.syndrome, expected.syndrome);
    EXPECT_EQ(packet.msn, 0x445566U);
    EXPECT_EQ(packet.psn, Psn(expected.psn));
    EXPECT_EQ(packet.dest_qpn, 0xA0B0CU);
    EXPECT_TRUE(packet.payload.empty());
  }
}

TEST(ParseGolden, VlanTagIsSkipped) {
  const Bytes frame = test::vlan_frame(test::from_hex(test::kUcSendIpv4Hex));
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.psn, Psn(0xCF1710));
  EXPECT_EQ(packet.ip.data(), frame.data() + kIp + 4);
}

TEST(ParseGolden, TrailingBytesAreNoPartOfThePacket) {
  Bytes frame = frame_of(test::kUcSendIpv4Hex);
  const size_t size = frame.size();
  frame.insert(frame.end(), 30, 0xEE);
  const ParsedPacket packet = parsed(frame);
  EXPECT_EQ(packet.ip.size(), size - kIp);
  EXPECT_EQ(packet.payload.size(), 18U);
  EXPECT_TRUE(icrc_valid(packet));
}

TEST(ParseDrops, EtherTypeOfSomebodyElse) {
  Bytes arp = frame_of(test::kUcSendIpv4Hex);
  arp[13] = 0x06;
  EXPECT_EQ(reason(arp), DropReason::kNotForUs);
  for (const std::string_view hex : {test::kRoceV1WriteHex, test::kRoceV1AckHex}) {
    Bytes frame = frame_of(hex);
    frame[12] = 0x89;
    frame[13] = 0x15;
    EXPECT_EQ(reason(frame), DropReason::kNotForUs);
  }
  Bytes two_tags = test::vlan_frame(test::from_hex(test::kUcSendIpv4Hex));
  two_tags[16] = 0x81;
  two_tags[17] = 0x00;
  EXPECT_EQ(reason(two_tags), DropReason::kNotForUs);
}

TEST(ParseDrops, NotUdp4791) {
  Bytes tcp = frame_of(test::kUcSendIpv4Hex);
  tcp[kIp + 9] = 6;
  test::fix_ip_checksum(tcp);
  EXPECT_EQ(reason(tcp), DropReason::kNotRoce);

  Bytes tcp6 = frame_of(test::kUcSendIpv6Hex);
  tcp6[kIp + 6] = 6;
  EXPECT_EQ(reason(tcp6), DropReason::kNotRoce);

  Bytes port = frame_of(test::kUcSendIpv4Hex);
  port[kUdp4 + 3] = 0xB8;
  EXPECT_EQ(reason(port), DropReason::kNotRoce);
}

TEST(ParseDrops, Ipv4Header) {
  Bytes checksum = frame_of(test::kUcSendIpv4Hex);
  checksum[kIp + 10] ^= 1;
  EXPECT_EQ(reason(checksum), DropReason::kBadIpHeader);

  Bytes options = frame_of(test::kUcSendIpv4Hex);
  options[kIp] = 0x46;
  test::fix_ip_checksum(options);
  EXPECT_EQ(reason(options), DropReason::kBadIpHeader);

  for (const int flags : {0x2000, 0x6000, 0x0001, 0x5FFF}) {
    Bytes fragment = frame_of(test::kUcSendIpv4Hex);
    fragment[kIp + 6] = static_cast<uint8_t>(flags >> 8);
    fragment[kIp + 7] = static_cast<uint8_t>(flags);
    test::fix_ip_checksum(fragment);
    EXPECT_EQ(reason(fragment), DropReason::kBadIpHeader) << flags;
  }

  Bytes version = frame_of(test::kUcSendIpv6Hex);
  version[kIp] = 0x42;
  EXPECT_EQ(reason(version), DropReason::kBadIpHeader);
}

TEST(ParseDrops, Lengths) {
  Bytes total_short = frame_of(test::kUcSendIpv4Hex);
  total_short[kIp + 3] = 19;
  test::fix_ip_checksum(total_short);
  EXPECT_EQ(reason(total_short), DropReason::kBadLength);

  Bytes total_long = frame_of(test::kUcSendIpv4Hex);
  total_long[kIp + 3] = 65;
  test::fix_ip_checksum(total_long);
  EXPECT_EQ(reason(total_long), DropReason::kTooShort);

  for (const int udp_length : {43, 45, 0}) {  // 44 is right
    Bytes udp = frame_of(test::kUcSendIpv4Hex);
    udp[kUdp4 + 5] = static_cast<uint8_t>(udp_length);
    EXPECT_EQ(reason(udp), DropReason::kBadLength) << udp_length;
  }
}

TEST(ParseDrops, UdpChecksum) {
  Bytes wrong6 = frame_of(test::kSendUdpChecksumHex);
  wrong6[kIp + 40 + 7] ^= 1;
  EXPECT_EQ(reason(wrong6), DropReason::kBadUdpChecksum);

  Bytes payload6 = frame_of(test::kSendUdpChecksumHex);
  payload6[kIp + 40 + 8 + 12] ^= 1;
  EXPECT_EQ(reason(payload6), DropReason::kBadUdpChecksum);

  Bytes wrong4 = frame_of(test::kUcSendIpv4Hex);
  wrong4[kUdp4 + 7] = 1;
  EXPECT_EQ(reason(wrong4), DropReason::kBadUdpChecksum);
}

// The UC packet's checksum, summed here word by word, is accepted.
TEST(ParseGolden, Ipv4UdpChecksumIsVerified) {
  Bytes frame = frame_of(test::kUcSendIpv4Hex);
  uint32_t sum = 17 + 44;
  for (size_t i = kIp + 12; i < frame.size(); i += 2) {  // addresses, UDP header, data
    sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
  }
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  frame[kUdp4 + 6] = static_cast<uint8_t>(~sum >> 8);
  frame[kUdp4 + 7] = static_cast<uint8_t>(~sum);
  EXPECT_TRUE(icrc_valid(parsed(frame)));
}

TEST(ParseDrops, TransportVersion) {
  for (uint8_t version = 1; version < 16; ++version) {
    Bytes frame = frame_of(test::kUcSendIpv4Hex);
    frame[kBth4 + 1] = static_cast<uint8_t>(frame[kBth4 + 1] | version);
    EXPECT_EQ(reason(frame), DropReason::kBadTransportVersion);
  }
}

TEST(ParseDrops, UnknownOpcode) {
  for (const int opcode : {0x15, 0x18, 0x2C, 0x40, 0x66, 0x80, 0xA0, 0xFF}) {
    Bytes frame = frame_of(test::kUcSendIpv4Hex);
    frame[kBth4] = static_cast<uint8_t>(opcode);
    EXPECT_EQ(reason(frame), DropReason::kUnknownOpcode) << opcode;
  }
}

TEST(ParseDrops, PayloadWhereNoneBelongs) {
  Bytes frame = frame_of(test::kUcSendIpv4Hex);  // 20 bytes after the BTH
  frame[kBth4 + 1] = 0x40;
  frame[kBth4] = 0x11;  // ACK: 4 of them are the AETH
  EXPECT_EQ(reason(frame), DropReason::kBadLength);
  frame[kBth4] = 0x0C;  // READ request: 16
  EXPECT_EQ(reason(frame), DropReason::kBadLength);
  frame[kBth4] = 0x81;  // CNP: 16
  EXPECT_EQ(reason(frame), DropReason::kBadLength);
  frame[kBth4] = 0x13;  // atomic: 28, more than there are
  EXPECT_EQ(reason(frame), DropReason::kBadLength);
}

TEST(ParseDrops, PadWithoutPayload) {
  Bytes frame = frame_of(test::kAckHex);
  frame[kIp + 40 + 8 + 1] = 0x10;
  EXPECT_EQ(reason(frame), DropReason::kBadLength);
}

TEST(ParseTolerates, ReservedBitsAndAnyDestinationQp) {
  Bytes frame = frame_of(test::kUcSendIpv4Hex);
  frame[kBth4 + 4] = 0xBF;  // FECN and all reserved bits: Huawei adapters set some
  frame[kBth4 + 8] = 0x7F;
  frame[kBth4 + 5] = frame[kBth4 + 6] = frame[kBth4 + 7] = 0;
  const ParsedPacket packet = parsed(frame);
  EXPECT_FALSE(packet.becn);
  EXPECT_FALSE(packet.ack_req);
  EXPECT_EQ(packet.dest_qpn, 0U);
}

TEST(ParseHostile, EveryTruncationIsDropped) {
  for (const GoldenPacket& golden : test::golden_packets()) {
    const Bytes ip = test::from_hex(golden.hex);
    for (const Bytes& frame : {test::ethernet_frame(ip), test::vlan_frame(ip)}) {
      for (size_t size = 0; size < frame.size(); ++size) {
        EXPECT_EQ(reason(std::span(frame).first(size)), DropReason::kTooShort)
            << golden.name << " cut to " << size;
      }
      EXPECT_EQ(reason(frame), DropReason::kCount) << golden.name;
    }
  }
}

void set_lengths(Bytes& frame, size_t udp_bytes) {
  const bool ipv6 = frame[kIp] >> 4 == 6;
  const size_t udp_at = kIp + (ipv6 ? 40 : 20);
  const size_t ip_length = ipv6 ? udp_bytes : udp_bytes + 20;
  frame[kIp + (ipv6 ? 4 : 2)] = static_cast<uint8_t>(ip_length >> 8);
  frame[kIp + (ipv6 ? 5 : 3)] = static_cast<uint8_t>(ip_length);
  if (udp_bytes >= 8) {
    frame[udp_at + 4] = static_cast<uint8_t>(udp_bytes >> 8);
    frame[udp_at + 5] = static_cast<uint8_t>(udp_bytes);
    frame[udp_at + 6] = frame[udp_at + 7] = 0;
  }
  test::fix_ip_checksum(frame);
}

// Truncated packets whose IP and UDP lengths agree with the truncation reach the inner checks.
void expect_judged_by_transport_headers(std::string_view name, const Bytes& whole) {
  const size_t udp_at = kIp + (whole[kIp] >> 4 == 6 ? 40U : 20U);
  const OpcodeInfo& info = opcode_info(whole[udp_at + 8]);
  const size_t pad = whole[udp_at + 9] >> 4 & 3;
  for (size_t udp_bytes = 0; udp_bytes <= whole.size() - udp_at; ++udp_bytes) {
    Bytes frame(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(udp_at + udp_bytes));
    set_lengths(frame, udp_bytes);
    const size_t fixed = 8U + info.header_bytes + 4U;
    const size_t padded = udp_bytes - fixed;  // meaningful only when udp_bytes >= fixed
    const bool right =
        udp_bytes >= fixed && padded % 4 == 0 && padded >= pad && (info.has_payload || padded == 0);
    std::unique_ptr<uint8_t[]> block;
    const auto result = parse_exact(frame, block);
    const auto* packet = std::get_if<ParsedPacket>(&result);
    ASSERT_EQ(packet != nullptr, right) << name << " UDP length " << udp_bytes;
    if (packet != nullptr) {
      EXPECT_EQ(packet->payload.size(), padded - pad) << name << " UDP length " << udp_bytes;
    } else {
      EXPECT_EQ(std::get<DropReason>(result), DropReason::kBadLength) << name << udp_bytes;
    }
  }
}

TEST(ParseHostile, EveryConsistentTruncationOfGoldenPackets) {
  for (const GoldenPacket& golden : test::golden_packets()) {
    expect_judged_by_transport_headers(golden.name, frame_of(golden.hex));
  }
}

TEST(ParseHostile, EveryConsistentTruncationOfEveryOpcode) {
  for (const bool ipv6 : {false, true}) {
    Path path;
    path.source_gid =
        ipv6 ? test::gid_from_hex("fd770000000000000000000000000002") : Gid::from_ipv4(1);
    path.dest_gid =
        ipv6 ? test::gid_from_hex("fd770000000000000000000000000003") : Gid::from_ipv4(2);
    for (int opcode = 0; opcode < 256; ++opcode) {
      const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
      if (!info.known()) continue;
      PacketSpec spec;
      spec.path = &path;
      spec.opcode = static_cast<Opcode>(opcode);
      spec.payload_bytes = info.has_payload ? 6 : 0;
      Bytes frame(frame_bytes(spec));
      emit_headers(spec, frame.data());
      finish(spec, frame.data());
      expect_judged_by_transport_headers(info.name, frame);
    }
  }
}

bool inside(std::span<const uint8_t> part, std::span<const uint8_t> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

TEST(ParseHostile, RandomDamageNeverPointsOutsideTheFrame) {
  std::mt19937 random(20240607);
  size_t passed = 0;
  for (int round = 0; round < 100'000; ++round) {
    const auto goldens = test::golden_packets();
    Bytes frame = frame_of(goldens[random() % goldens.size()].hex);
    for (unsigned damage = random() % 4; damage > 0; --damage) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 2 == 0) test::fix_ip_checksum(frame);
    if (random() % 4 == 0) frame.resize(random() % (frame.size() + 1));
    std::unique_ptr<uint8_t[]> block;
    const auto result = parse_exact(frame, block);
    const auto* packet = std::get_if<ParsedPacket>(&result);
    if (packet == nullptr) continue;
    ++passed;
    const std::span<const uint8_t> whole(block.get(), frame.size());
    ASSERT_TRUE(inside(packet->ip, whole));
    ASSERT_TRUE(inside(packet->payload, packet->ip));
    ASSERT_TRUE(packet->info != nullptr && packet->info->known());
    icrc_valid(*packet);
  }
  EXPECT_GT(passed, 10'000U);
}

}  // namespace
}  // namespace verbena::wire
