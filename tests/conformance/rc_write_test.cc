// RDMA WRITE: segmentation, RETH, placement order. IBTA vol. 1 ch. 9.7.2, 9.7.4; rules RC-REQ-2,
// RC-RSP-20, -21, -23, -25.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

class RcWriteTest : public testing::Test {
 protected:
  Timeline t;
  Key rkey = t.station.keys.rkey;
  uint64_t va = t.station.va(t.kInto);

  PacketFields write(Opcode opcode, uint32_t psn, uint32_t bytes, uint32_t total) const {
    return {.opcode = opcode,
            .psn = psn,
            .bytes = bytes,
            .seed = 4,
            .seed_offset = psn * 1024,
            .va = va,
            .rkey = rkey,
            .dma_length = total};
  }
};

TEST_F(RcWriteTest, RethIsInTheFirstPacketWithTheWholeLength) {
  t.post_write(2500);
  t.expect({.opcode = Opcode::kWriteFirst,
            .psn = 0,
            .va = t.kPeerVa,
            .rkey = t.kPeerRkey,
            .dma_length = 2500,
            .bytes = 1024});
  t.expect({.opcode = Opcode::kWriteMiddle, .psn = 1, .bytes = 1024});
  t.expect({.opcode = Opcode::kWriteLast, .psn = 2, .ack_req = true, .bytes = 452});
  t.ack(2);
  EXPECT_EQ(t.expect_wc(0).opcode, abi::WcOpcode::kWrite);
  t.expect_silence();
}

TEST_F(RcWriteTest, ImmediateIsOnTheLastPacketAndSolicitedOnlyWithIt) {
  t.post({.opcode = abi::WrOpcode::kWriteImm,
          .flags = abi::kWrSignaled | abi::kWrSolicited,
          .sges = {t.station.sge(0, 1025)},
          .imm_wire = 5,
          .rkey = 1,
          .remote_va = 2});
  t.expect({.opcode = Opcode::kWriteFirst, .solicited = false});
  t.expect({.opcode = Opcode::kWriteLastImm, .solicited = true, .imm_wire = 5});
  t.post_write(1, abi::kWrSolicited);
  t.expect({.opcode = Opcode::kWriteOnly, .solicited = false});
  t.expect_silence();
}

TEST_F(RcWriteTest, BytesArePlacedInOrderAndTheLastEightLast) {
  t.station.memory.record_writes(true);
  t.peer_burst({write(Opcode::kWriteFirst, 0, 1024, 2051), write(Opcode::kWriteMiddle, 1, 1024, 0),
                write(Opcode::kWriteLast, 2, 3, 0)});
  t.expect_ack(2, 1);
  EXPECT_TRUE(t.station.memory.holds(va, 2051, 4));
  uint64_t next = va;
  for (const FakeMemory::Write& w : t.station.memory.writes()) {
    EXPECT_EQ(w.va, next);
    EXPECT_TRUE(w.ordered);
    next += w.bytes;
  }
  EXPECT_EQ(next, va + 2051);
  t.expect_silence();
}

TEST_F(RcWriteTest, ReceiveEntryComesAfterTheData) {
  t.post_recv(0);
  uint32_t writes = 0;
  t.station.memory.on_write = [&] {
    ++writes;
    EXPECT_EQ(t.cq.waiting(), 0U);
  };
  PacketFields last = write(Opcode::kWriteLastImm, 1, 3, 0);
  last.imm_wire = 77;
  t.peer_burst({write(Opcode::kWriteFirst, 0, 1024, 1027), last});
  EXPECT_NE(writes, 0U);
  t.expect_ack(1, 1);
  const Wc wc = t.expect_wc(0);
  EXPECT_EQ(wc.opcode, abi::WcOpcode::kRecvWriteImm);
  EXPECT_EQ(wc.byte_len, 1027U);
  EXPECT_EQ(wc.imm_wire, 77U);
  t.expect_silence();
}

TEST_F(RcWriteTest, PlainWriteConsumesNoReceive) {
  t.post_recv(100);
  t.peer(write(Opcode::kWriteOnly, 0, 16, 16));
  t.expect_ack(0, 1);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 1, .bytes = 1});
  t.expect_ack(1, 2);
  t.expect_recv(0, 1);
  t.expect_silence();
}

TEST_F(RcWriteTest, ImmediateWithoutReceiveIsNotReadyAndPlacesNothing) {
  PacketFields only = write(Opcode::kWriteOnlyImm, 0, 8, 8);
  t.peer(only);
  t.expect_rnr_nak(0, 1);
  EXPECT_EQ(t.station.memory.accesses(), 0U);
  t.post_recv(0);
  t.peer(only);
  t.expect_ack(0, 1);
  EXPECT_EQ(t.expect_wc(0).byte_len, 8U);
  t.expect_silence();
}

TEST_F(RcWriteTest, EmptyWriteNeedsNoKey) {
  t.peer({.opcode = Opcode::kWriteOnly, .va = 1, .rkey = 0xBAD, .dma_length = 0});
  t.expect_ack(0, 1);
  EXPECT_EQ(t.station.memory.accesses(), 0U);
  t.expect_silence();
}

struct Sequence {
  const char* name;
  std::vector<PacketFields> packets;  // the last one is refused
};

class RcWriteLengthTest : public testing::TestWithParam<Sequence> {};

TEST_P(RcWriteLengthTest, ContradictingLengthIsInvalidRequest) {
  Timeline t;
  t.post_recv(4096);
  std::vector<PacketFields> packets = GetParam().packets;
  for (uint32_t i = 0; i < packets.size(); ++i) {
    packets[i].psn = i;
    packets[i].ack_req = false;
    packets[i].va = t.station.va(t.kInto);
    packets[i].rkey = t.station.keys.rkey;
    t.expect_silence();
    t.peer(packets[i]);
  }
  t.expect_nak(static_cast<uint32_t>(packets.size()) - 1, NakCode::kInvalidRequest);
  t.expect_event(AsyncEventType::kQpReqErr);
  t.expect_wc_error(0, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(
    All, RcWriteLengthTest,
    testing::Values(
        Sequence{"FirstShort",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1023, .dma_length = 3000}}},
        Sequence{"FirstLong", {{.opcode = Opcode::kWriteFirst, .bytes = 1025, .dma_length = 3000}}},
        Sequence{"FirstIsAll",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 1024}}},
        Sequence{"OnlyShort", {{.opcode = Opcode::kWriteOnly, .bytes = 7, .dma_length = 8}}},
        Sequence{"OnlyLong", {{.opcode = Opcode::kWriteOnly, .bytes = 9, .dma_length = 8}}},
        Sequence{"OnlyOverMtu",
                 {{.opcode = Opcode::kWriteOnly, .bytes = 1025, .dma_length = 1025}}},
        Sequence{"MiddleShort",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 4000},
                  {.opcode = Opcode::kWriteMiddle, .bytes = 1000}}},
        Sequence{"LastEmpty",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kWriteLast, .bytes = 0}}},
        Sequence{"LastShort",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kWriteLast, .bytes = 975}}},
        Sequence{"LastLong",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kWriteLast, .bytes = 977}}},
        Sequence{"MiddleTooMany",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kWriteMiddle, .bytes = 1024}}},
        Sequence{"LastWithoutFirst", {{.opcode = Opcode::kWriteLast, .bytes = 8}}},
        Sequence{"MiddleWithoutFirst", {{.opcode = Opcode::kWriteMiddle, .bytes = 1024}}},
        Sequence{"SendLastWithoutFirst", {{.opcode = Opcode::kSendLast, .bytes = 8}}},
        Sequence{"SendInsideWrite",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kSendOnly, .bytes = 8}}},
        Sequence{"SendLastInsideWrite",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kSendLast, .bytes = 8}}},
        Sequence{"ReadInsideWrite",
                 {{.opcode = Opcode::kWriteFirst, .bytes = 1024, .dma_length = 2000},
                  {.opcode = Opcode::kReadRequest, .dma_length = 8}}},
        Sequence{"Atomic", {{.opcode = Opcode::kCompareSwap}}},
        Sequence{"SendWithInvalidate", {{.opcode = Opcode::kSendOnlyInv, .bytes = 8}}}),
    [](const auto& test) { return test.param.name; });

class RcSendLengthTest : public testing::TestWithParam<Sequence> {};

// Here the receive is already taken; it is flushed first.
TEST_P(RcSendLengthTest, ContradictingLengthIsInvalidRequest) {
  Timeline t;
  t.post_recv(8192);
  std::vector<PacketFields> packets = GetParam().packets;
  for (uint32_t i = 0; i < packets.size(); ++i) {
    packets[i].psn = i;
    packets[i].ack_req = false;
    t.expect_silence();
    t.peer(packets[i]);
  }
  t.expect_nak(static_cast<uint32_t>(packets.size()) - 1, NakCode::kInvalidRequest);
  t.expect_event(AsyncEventType::kQpReqErr);
  t.expect_wc_error(0, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(All, RcSendLengthTest,
                         testing::Values(Sequence{"FirstShort",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1020}}},
                                         Sequence{"MiddleShort",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1024},
                                                   {.opcode = Opcode::kSendMiddle, .bytes = 4}}},
                                         Sequence{"LastEmpty",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1024},
                                                   {.opcode = Opcode::kSendLast, .bytes = 0}}},
                                         Sequence{"LastOverMtu",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1024},
                                                   {.opcode = Opcode::kSendLast, .bytes = 1028}}},
                                         Sequence{"SecondFirst",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1024},
                                                   {.opcode = Opcode::kSendFirst, .bytes = 1024}}},
                                         Sequence{"WriteInside",
                                                  {{.opcode = Opcode::kSendFirst, .bytes = 1024},
                                                   {.opcode = Opcode::kWriteLast, .bytes = 8}}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace verbena::test
