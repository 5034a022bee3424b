#include "stack/wire/describe.h"

#include <gtest/gtest.h>

#include "stack/wire/emit.h"
#include "tests/support/golden_frames.h"

namespace verbena::wire {
namespace {

std::string described(std::string_view hex) {
  return describe(test::ethernet_frame(test::from_hex(hex)));
}

std::string described(PacketSpec spec) {
  Path path;
  path.source_gid = Gid::from_ipv4(1);
  path.dest_gid = Gid::from_ipv4(2);
  spec.path = &path;
  spec.dest_qpn = 0x11;
  spec.psn = Psn(1234);
  test::Bytes frame(frame_bytes(spec));
  emit_headers(spec, frame.data());
  finish(spec, frame.data());
  return describe(frame);
}

TEST(Describe, GoldenPackets) {
  EXPECT_EQ(described(test::kCnpHex), "CNP QPN 0x118");
  EXPECT_EQ(described(test::kUcSendIpv4Hex), "UC SEND Only QPN 0xd3 PSN 13571856 len 18");
  EXPECT_EQ(described(test::kSendUdpChecksumHex), "RC SEND Only QPN 0x10203 PSN 1122864 len 3 A");
  EXPECT_EQ(described(test::kAckHex), "RC Acknowledge QPN 0xa0b0c PSN 1122869 MSN 4478310");
  EXPECT_EQ(described(test::kRnrNakHex),
            "RC Acknowledge QPN 0xa0b0c PSN 1122867 RNR NAK timer 25 MSN 4478310");
  EXPECT_EQ(described(test::kPsnNakHex),
            "RC Acknowledge QPN 0xa0b0c PSN 1122868 NAK PSN sequence error MSN 4478310");
}

TEST(Describe, ExtendedHeaders) {
  PacketSpec write;
  write.opcode = Opcode::kWriteOnlyImm;
  write.va = 0x1000;
  write.rkey = 0xABC;
  write.dma_length = 5;
  write.payload_bytes = 5;
  write.imm_wire = 0x78563412;
  write.solicited = true;
  EXPECT_EQ(described(write),
            "RC RDMA WRITE Only with Immediate QPN 0x11 PSN 1234 va 0x1000 rkey 0xabc dma 5 "
            "imm 0x12345678 len 5 SE");

  PacketSpec swap;
  swap.opcode = Opcode::kCompareSwap;
  swap.va = 8;
  swap.swap_add = 0xAA;
  swap.compare = 0xBB;
  EXPECT_EQ(described(swap),
            "RC CmpSwap QPN 0x11 PSN 1234 va 0x8 rkey 0x0 operand 0xaa compare 0xbb");

  PacketSpec atomic_ack;
  atomic_ack.opcode = Opcode::kAtomicAcknowledge;
  atomic_ack.syndrome = 5;
  atomic_ack.atomic_original = 0xCC;
  EXPECT_EQ(described(atomic_ack),
            "RC ATOMIC Acknowledge QPN 0x11 PSN 1234 credits 5 MSN 0 original 0xcc");

  PacketSpec invalidate;
  invalidate.opcode = Opcode::kSendOnlyInv;
  invalidate.invalidate_rkey = 0x77;
  EXPECT_EQ(described(invalidate),
            "RC SEND Only with Invalidate QPN 0x11 PSN 1234 invalidate 0x77 len 0");

  PacketSpec datagram;
  datagram.opcode = Opcode::kUdSendOnly;
  datagram.source_qpn = 0x22;
  datagram.qkey = 0x11111111;
  EXPECT_EQ(described(datagram),
            "UD SEND Only QPN 0x11 PSN 1234 from QPN 0x22 qkey 0x11111111 len 0");
}

TEST(Describe, Syndromes) {
  PacketSpec ack;
  ack.opcode = Opcode::kAcknowledge;
  const struct {
    uint8_t syndrome;
    const char* text;
  } cases[] = {{0x61, " NAK invalid request"},          {0x62, " NAK remote access error"},
               {0x63, " NAK remote operational error"}, {0x7F, " NAK reserved code"},
               {0x45, " reserved syndrome 0x45"},       {0x1F, ""}};
  for (const auto& expected : cases) {
    ack.syndrome = expected.syndrome;
    EXPECT_EQ(described(ack),
              "RC Acknowledge QPN 0x11 PSN 1234" + std::string(expected.text) + " MSN 0");
  }
}

TEST(Describe, FramesThatDoNotParse) {
  EXPECT_EQ(describe(std::span<const uint8_t>{}), "dropped: too_short");
  test::Bytes frame = test::ethernet_frame(test::from_hex(test::kCnpHex));
  frame[13] = 0x06;
  EXPECT_EQ(describe(frame), "dropped: not_for_us");
}

}  // namespace
}  // namespace verbena::wire
