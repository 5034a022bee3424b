// Emission: golden packets byte for byte, then every opcode there and back through the parser.
#include "stack/wire/emit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "stack/base/bytes.h"
#include "stack/wire/parse.h"
#include "tests/support/golden_frames.h"

namespace verbena::wire {
namespace {

using test::Bytes;

// All bytes are set before, so that a byte that emission leaves out is seen.
Bytes emit(const PacketSpec& spec, std::span<const uint8_t> payload) {
  Bytes frame(frame_bytes(spec), 0xCC);
  uint8_t* const at = emit_headers(spec, frame.data());
  std::copy(payload.begin(), payload.end(), at);
  finish(spec, frame.data());
  return frame;
}

Path path_between(const Gid& source, const Gid& dest) {
  Path path;
  path.source_mac.bytes = {2, 0, 0, 0, 0, 2};
  path.dest_mac.bytes = {2, 0, 0, 0, 0, 1};
  path.source_gid = source;
  path.dest_gid = dest;
  return path;
}

TEST(EmitGolden, ConnectxCnp) {
  Path path = path_between(Gid::from_ipv4(0x0A001101), Gid::from_ipv4(0x0A001201));
  path.traffic_class = 0xC2;
  path.source_port = 0;
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = Opcode::kCnp;
  spec.mig_req = false;
  spec.becn = true;
  spec.ip_id = 0x718C;
  spec.dest_qpn = 0x118;
  EXPECT_EQ(emit(spec, {}), test::ethernet_frame(test::from_hex(test::kCnpHex)));
}

TEST(EmitGolden, UcSendOverIpv4) {
  Path path = path_between(Gid::from_ipv4(0xC0A80007), Gid::from_ipv4(0xC0A80007));
  path.traffic_class = 1;
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = static_cast<Opcode>(0x24);
  spec.ip_id = 0x478;
  spec.dest_qpn = 0xD3;
  spec.psn = Psn(0xCF1710);
  spec.payload_bytes = 18;
  const Bytes payload = test::from_hex("4630818be28935d90e9a95505401be885e50");
  EXPECT_EQ(emit(spec, payload), test::ethernet_frame(test::from_hex(test::kUcSendIpv4Hex)));
}

TEST(EmitGolden, UcSendOverIpv6) {
  Path path = path_between(test::gid_from_hex("20220000000000000000000000001023"),
                           test::gid_from_hex("20230000000000000000000000001024"));
  path.traffic_class = 226;
  path.flow_label = 0x1FACE;
  path.hop_limit = 255;
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = static_cast<Opcode>(0x24);
  spec.dest_qpn = 0xD3;
  spec.psn = Psn(0xCF1710);
  spec.payload_bytes = 18;
  const Bytes payload = test::from_hex("4630818be28935d90e9a95505401be885e50");
  EXPECT_EQ(emit(spec, payload), test::ethernet_frame(test::from_hex(test::kUcSendIpv6Hex)));
}

TEST(EmitGolden, RnrNak) {
  Path path = path_between(test::gid_from_hex("20010db8000000000000000000000002"),
                           test::gid_from_hex("20010db8000000000000000000000001"));
  path.traffic_class = 0x2A;
  path.flow_label = 0x34567;
  path.source_port = 0xC56A;
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = Opcode::kAcknowledge;
  spec.mig_req = false;
  spec.dest_qpn = 0xA0B0C;
  spec.psn = Psn(0x112233);
  spec.syndrome = 0x39;
  spec.msn = 0x445566;
  EXPECT_EQ(emit(spec, {}), test::ethernet_frame(test::from_hex(test::kRnrNakHex)));
}

// The transport bytes of a RoCEv1 WRITE are those of RoCEv2; only what is around them differs.
TEST(EmitGolden, TransportOfAConnectxWrite) {
  const Bytes golden = test::from_hex(test::kRoceV1WriteHex);
  const Path path = path_between(Gid::from_ipv4(1), Gid::from_ipv4(2));
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = Opcode::kWriteOnly;
  spec.ack_req = true;
  spec.dest_qpn = 0x10A;
  spec.psn = Psn(0xA788BC);
  spec.va = 0x000055D4C0726000;
  spec.rkey = 0x47B3;
  spec.dma_length = 5;
  spec.payload_bytes = 5;
  const Bytes frame = emit(spec, test::from_hex("0000000001"));
  EXPECT_EQ(Bytes(frame.begin() + 42, frame.end() - 4),
            Bytes(golden.begin() + 40, golden.end() - 4));
}

TEST(EmitGolden, TransportOfAConnectxAck) {
  const Bytes golden = test::from_hex(test::kRoceV1AckHex);
  const Path path = path_between(Gid::from_ipv4(1), Gid::from_ipv4(2));
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = Opcode::kAcknowledge;
  spec.dest_qpn = 0x109;
  spec.psn = Psn(0xA788C0);
  spec.msn = 5;
  const Bytes frame = emit(spec, {});
  EXPECT_EQ(Bytes(frame.begin() + 42, frame.end() - 4),
            Bytes(golden.begin() + 40, golden.end() - 4));
}

PacketSpec random_spec(const Path& path, uint8_t opcode, std::mt19937_64& random) {
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = static_cast<Opcode>(opcode);
  spec.solicited = random() % 2 == 0;
  spec.ack_req = random() % 2 == 0;
  spec.mig_req = random() % 2 == 0;
  spec.becn = random() % 2 == 0;
  spec.pkey = static_cast<uint16_t>(random());
  spec.ip_id = static_cast<uint16_t>(random());
  spec.dest_qpn = random() & 0xFFFFFF;
  spec.psn = Psn(static_cast<uint32_t>(random()));
  spec.va = random();
  spec.rkey = static_cast<Key>(random());
  spec.dma_length = static_cast<uint32_t>(random());
  spec.swap_add = random();
  spec.compare = random();
  spec.syndrome = static_cast<uint8_t>(random());
  spec.msn = random() & 0xFFFFFF;
  spec.atomic_original = random();
  spec.imm_wire = static_cast<uint32_t>(random());
  spec.invalidate_rkey = static_cast<Key>(random());
  spec.qkey = static_cast<uint32_t>(random());
  spec.source_qpn = random() & 0xFFFFFF;
  return spec;
}

void expect_same(const PacketSpec& spec, const ParsedPacket& packet) {
  const OpcodeInfo& info = opcode_info(spec.opcode);
  EXPECT_EQ(packet.info, &info);
  EXPECT_EQ(packet.opcode, static_cast<uint8_t>(spec.opcode));
  EXPECT_EQ(packet.solicited, spec.solicited);
  EXPECT_EQ(packet.ack_req, spec.ack_req);
  EXPECT_EQ(packet.mig_req, spec.mig_req);
  EXPECT_EQ(packet.becn, spec.becn);
  EXPECT_EQ(packet.pkey, spec.pkey);
  EXPECT_EQ(packet.dest_qpn, spec.dest_qpn);
  EXPECT_EQ(packet.psn, spec.psn);
  EXPECT_EQ(packet.source_mac, spec.path->source_mac);
  EXPECT_EQ(packet.dest_mac, spec.path->dest_mac);
  EXPECT_EQ(packet.source_gid, spec.path->source_gid);
  EXPECT_EQ(packet.dest_gid, spec.path->dest_gid);
  EXPECT_EQ(packet.source_port, spec.path->source_port);
  EXPECT_EQ(packet.traffic_class, spec.path->traffic_class);
  const bool addressed = info.has_reth || info.has_atomic_eth;
  EXPECT_EQ(packet.va, addressed ? spec.va : 0);
  EXPECT_EQ(packet.rkey, addressed ? spec.rkey : 0);
  EXPECT_EQ(packet.dma_length, info.has_reth ? spec.dma_length : 0);
  EXPECT_EQ(packet.swap_add, info.has_atomic_eth ? spec.swap_add : 0);
  EXPECT_EQ(packet.compare, info.has_atomic_eth ? spec.compare : 0);
  EXPECT_EQ(packet.syndrome, info.has_aeth ? spec.syndrome : 0);
  EXPECT_EQ(packet.msn, info.has_aeth ? spec.msn : 0);
  EXPECT_EQ(packet.atomic_original, info.has_atomic_ack_eth ? spec.atomic_original : 0);
  const uint32_t ieth_wire = info.has_ieth ? __builtin_bswap32(spec.invalidate_rkey) : 0;
  EXPECT_EQ(packet.imm_wire, info.has_imm ? spec.imm_wire : ieth_wire);
  EXPECT_EQ(packet.invalidate_rkey, info.has_ieth ? spec.invalidate_rkey : 0);
  EXPECT_EQ(packet.qkey, info.has_deth ? spec.qkey : 0);
  EXPECT_EQ(packet.source_qpn, info.has_deth ? spec.source_qpn : 0);
}

TEST(EmitRoundTrip, EveryOpcodeAndPayloadSize) {
  std::mt19937_64 random(7);
  const Path paths[] = {
      path_between(Gid::from_ipv4(0x0A630001), Gid::from_ipv4(0x0A630002)),
      path_between(test::gid_from_hex("fe80000000000000005054fffe770002"),
                   test::gid_from_hex("fd770000000000000000000000000003")),
  };
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    for (const Path& path : paths) {
      for (const uint32_t size : {0U, 1U, 2U, 3U, 4U, 5U, 255U, 1024U, 4095U, 4096U}) {
        if (size != 0 && !info.has_payload) continue;
        SCOPED_TRACE(testing::Message() << info.name << " size " << size);
        PacketSpec spec = random_spec(path, static_cast<uint8_t>(opcode), random);
        spec.payload_bytes = size;
        Bytes payload(size);
        std::generate(payload.begin(), payload.end(),
                      [&] { return static_cast<uint8_t>(random()); });
        const Bytes frame = emit(spec, payload);
        const auto result = parse(frame);
        ASSERT_TRUE(std::holds_alternative<ParsedPacket>(result));
        const ParsedPacket& packet = std::get<ParsedPacket>(result);
        expect_same(spec, packet);
        EXPECT_TRUE(std::ranges::equal(packet.payload, payload));
        EXPECT_EQ(packet.ip.size(), frame.size() - 14);
        EXPECT_TRUE(icrc_valid(packet));
      }
    }
  }
}

TEST(EmitHeaders, FieldsThatNoPacketSpecSets) {
  const Path path = path_between(Gid::from_ipv4(1), Gid::from_ipv4(2));
  PacketSpec spec;
  spec.path = &path;
  spec.payload_bytes = 1;
  const Bytes frame = emit(spec, Bytes{0x77});
  EXPECT_EQ(frame[14], 0x45);
  EXPECT_EQ(load_be16(&frame[20]), 0x4000);  // DF, no fragment
  EXPECT_EQ(frame[22], 64);                  // TTL
  EXPECT_EQ(frame[23], 17);
  EXPECT_EQ(load_be16(&frame[36]), 4791);
  EXPECT_EQ(load_be16(&frame[40]), 0);  // UDP checksum
  EXPECT_EQ(frame[43], 0x40 | 3 << 4);  // MigReq, PadCnt, TVer 0
  EXPECT_EQ(frame[46], 0);              // FECN, BECN, reserved
  EXPECT_EQ(frame[50], 0);              // AckReq, reserved
  EXPECT_EQ(Bytes(frame.begin() + 54, frame.end() - 4), (Bytes{0x77, 0, 0, 0}));
}

TEST(EmitHeaders, QpNumbersAndMsnOfMoreThan24BitsDoNotSpill) {
  const Path path = path_between(Gid::from_ipv4(1), Gid::from_ipv4(2));
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = Opcode::kUdSendOnly;
  spec.dest_qpn = spec.source_qpn = 0xFFFFFFFF;
  Bytes frame = emit(spec, {});
  EXPECT_EQ(frame[46], 0);
  EXPECT_EQ(frame[58], 0);  // reserved byte of the DETH
  spec.opcode = Opcode::kAcknowledge;
  spec.msn = 0xFF000001;
  frame = emit(spec, {});
  EXPECT_EQ(frame[54], 0);  // syndrome
}

// The headers end where the table says, whatever the opcode: the bytes behind are not touched.
TEST(EmitHeaders, WritesExactlyTheHeaderBytes) {
  const Path path = path_between(Gid::from_ipv4(1), Gid::from_ipv4(2));
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    PacketSpec spec;
    spec.path = &path;
    spec.opcode = static_cast<Opcode>(opcode);
    const size_t header_bytes = 42U + info.header_bytes;
    const auto block = std::make_unique<uint8_t[]>(header_bytes);
    EXPECT_EQ(emit_headers(spec, block.get()), block.get() + header_bytes) << info.name;
  }
}

TEST(UdpSourcePort, FromTheFlowLabel) {
  EXPECT_EQ(udp_source_port(0x00001, 1, 1), 0xC001);
  EXPECT_EQ(udp_source_port(0x04000, 1, 1), 0xC001);
  EXPECT_EQ(udp_source_port(0xFFFFF, 1, 1), 0xFFC0);
  EXPECT_EQ(udp_source_port(0x12345, 1, 1), 0xE341);
  EXPECT_EQ(udp_source_port(0x2FCFF, 1, 1), 0xFCF4);
  EXPECT_EQ(udp_source_port(0x5BA59, 1, 1), 0xFA4F);  // a ConnectX connection
}

TEST(UdpSourcePort, FromTheQpNumbersBothWaysAlike) {
  const struct {
    Qpn local;
    Qpn remote;
    uint16_t port;
  } cases[] = {{0x11, 0x11, 0xC121},  {0x12, 0x13, 0xC156},  {0x123, 0x456, 0xEDD1},
               {0xD2, 0x10A, 0xDA37}, {0x75, 0x13D, 0xD0E3}, {0x80, 0x148, 0xE402},
               {0x83, 0x14B, 0xE963}};
  for (const auto& expected : cases) {
    EXPECT_EQ(udp_source_port(0, expected.local, expected.remote), expected.port);
    EXPECT_EQ(udp_source_port(0, expected.remote, expected.local), expected.port);
  }
}

TEST(UdpSourcePort, AlwaysInTheRangeOfTheLinuxDrivers) {
  std::mt19937 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const auto flow_label = static_cast<uint32_t>(i % 2 == 0 ? 0 : random());
    EXPECT_GE(udp_source_port(flow_label, random() & 0xFFFFFF, random() & 0xFFFFFF), 0xC000);
  }
}

}  // namespace
}  // namespace verbena::wire
