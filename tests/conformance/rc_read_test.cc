// RDMA READ, both sides. IBTA vol. 1 ch. 9.7.5.1, 9.9; rules RC-PSN-2, -3, -4, RC-MSN-2, RC-REQ-11,
// -12, -50, -52, -54, RC-RSP-13.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

PacketFields response(Opcode opcode, uint32_t psn, uint32_t bytes) {
  return {.opcode = opcode,
          .psn = psn,
          .ack_req = false,
          .bytes = bytes,
          .seed = 6,
          .seed_offset = psn * 1024};
}

PacketFields read_request(const Timeline& t, uint32_t psn, uint32_t bytes, uint64_t offset = 0) {
  return {.opcode = Opcode::kReadRequest,
          .psn = psn,
          .va = t.station.va(offset),
          .rkey = t.station.keys.rkey,
          .dma_length = bytes};
}

TEST(RcReadTest, ResponsesFillTheBuffersAndComplete) {
  Timeline t;
  const uint32_t wr = t.post_read(2050);
  t.expect({.opcode = Opcode::kReadRequest,
            .psn = 0,
            .va = t.kPeerVa,
            .rkey = t.kPeerRkey,
            .dma_length = 2050,
            .bytes = 0});
  t.peer(response(Opcode::kReadResponseFirst, 0, 1024));
  t.peer(response(Opcode::kReadResponseMiddle, 1, 1024));
  t.expect_silence();
  t.peer(response(Opcode::kReadResponseLast, 2, 2));
  const Wc wc = t.expect_wc(wr);
  EXPECT_EQ(wc.opcode, abi::WcOpcode::kRead);
  EXPECT_EQ(wc.byte_len, 2050U);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 2050, 6));
  t.expect_silence();
}

TEST(RcReadTest, ReadTakesThePsnsOfItsResponses) {
  Timeline t;
  t.post_read(3 * 1024);
  t.post_read(0);
  t.post_send(1);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 3, .dma_length = 0});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 4});
  t.expect_silence();
}

TEST(RcReadTest, ResponseAcknowledgesEarlierSends) {
  Timeline t;
  t.post_send(1);
  t.post_read(4);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1});
  t.peer(response(Opcode::kReadResponseOnly, 1, 4));
  t.expect_wc(0);
  t.expect_wc(1);
  t.expect_silence();
}

TEST(RcReadTest, AckBehindAMissingResponseAsksForTheRestOnce) {
  Timeline t;
  t.post_read(4096);
  t.post_send(1);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 4});
  t.peer(response(Opcode::kReadResponseFirst, 0, 1024));
  t.ack(4);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1, .va = t.kPeerVa + 1024, .dma_length = 3072});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 4});
  t.ack(4);
  t.expect_silence();
  t.peer(response(Opcode::kReadResponseFirst, 1, 1024));
  t.peer(response(Opcode::kReadResponseMiddle, 2, 1024));
  t.peer(response(Opcode::kReadResponseLast, 3, 1024));
  t.expect_wc(0);
  t.ack(4);
  t.expect_wc(1);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 4096, 6));
  t.expect_silence();
}

// Responses that were on their way when the loss was noticed say nothing new: each would otherwise
// cost a retry.
TEST(RcReadTest, OneLossCostsOneRetryHoweverManyResponsesFollow) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .retry_cnt = 1}});
  t.post_read(10 * 1024);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  for (uint32_t i = 1; i < 9; ++i) t.peer(response(Opcode::kReadResponseMiddle, i, 1024));
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0, .dma_length = 10 * 1024});
  EXPECT_EQ(t.station.device.stats().implied_nak_seq_err, 1U);
  EXPECT_EQ(t.state(), QpState::kRts);
  t.expect_silence();
}

// As rxe answers a partial request: it goes on with Middle (RC-REQ-12).
TEST(RcReadTest, ContinuationWithMiddleIsTakenAfterARestart) {
  Timeline t;
  t.post_read(3072);
  t.peer(response(Opcode::kReadResponseFirst, 0, 1024));
  t.peer(response(Opcode::kReadResponseLast, 2, 1024));
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1, .dma_length = 2048});
  t.peer(response(Opcode::kReadResponseMiddle, 1, 1024));
  t.peer(response(Opcode::kReadResponseLast, 2, 1024));
  t.expect_wc(0);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 3072, 6));
  t.expect_silence();
}

class RcReadBadResponseTest : public testing::TestWithParam<std::vector<PacketFields>> {};

TEST_P(RcReadBadResponseTest, EndsTheConnection) {
  Timeline t;
  t.post_read(2 * 1024 + 5);
  t.post_send(1);
  t.expect({.opcode = Opcode::kReadRequest});
  t.expect({.opcode = Opcode::kSendOnly});
  for (const PacketFields& fields : GetParam()) t.peer(fields);
  t.expect_wc_error(0, abi::WcStatus::kBadResp, abi::VendorErr::kBadResponse);
  t.expect_wc_error(1, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(All, RcReadBadResponseTest,
                         testing::Values(std::vector{response(Opcode::kReadResponseFirst, 0, 1023)},
                                         std::vector{response(Opcode::kReadResponseFirst, 0, 1025)},
                                         std::vector{response(Opcode::kReadResponseOnly, 0, 1024)},
                                         std::vector{
                                             response(Opcode::kReadResponseMiddle, 0, 1024)},
                                         std::vector{response(Opcode::kReadResponseLast, 0, 1024)},
                                         std::vector{response(Opcode::kReadResponseFirst, 0, 1024),
                                                     response(Opcode::kReadResponseFirst, 1, 1024)},
                                         std::vector{response(Opcode::kReadResponseFirst, 0, 1024),
                                                     response(Opcode::kReadResponseLast, 1, 1024)},
                                         std::vector{response(Opcode::kReadResponseFirst, 0, 1024),
                                                     response(Opcode::kReadResponseMiddle, 1, 1024),
                                                     response(Opcode::kReadResponseLast, 2, 6)},
                                         std::vector{response(Opcode::kReadResponseFirst, 0, 1024),
                                                     response(Opcode::kReadResponseMiddle, 1, 1024),
                                                     response(Opcode::kReadResponseMiddle, 2, 5)}));

TEST(RcReadTest, ReadIsAnsweredFromMemory) {
  Timeline t;
  t.peer(read_request(t, 0, 2050));
  t.expect(
      {.opcode = Opcode::kReadResponseFirst, .psn = 0, .syndrome = 0x1F, .msn = 1, .bytes = 1024});
  t.expect({.opcode = Opcode::kReadResponseMiddle, .psn = 1, .bytes = 1024});
  t.expect({.opcode = Opcode::kReadResponseLast, .psn = 2, .msn = 1, .bytes = 2});
  t.peer(read_request(t, 3, 1024));
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 3, .msn = 2, .bytes = 1024});
  t.expect_silence();
}

TEST(RcReadTest, EmptyReadNeedsNoKeyAndGetsOneResponse) {
  Timeline t;
  t.peer({.opcode = Opcode::kReadRequest, .psn = 0, .va = 1, .rkey = 0xBAD, .dma_length = 0});
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 0, .msn = 1, .bytes = 0});
  t.expect_silence();
}

// The READ comes first, so it must see what was there before the WRITE, also when its answer cannot
// be sent at once.
class RcReadBeforeWriteTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RcReadBeforeWriteTest, ReadBringsTheBytesOfBefore) {
  Timeline t;
  t.fabric.sink_capacity = GetParam();
  t.station.memory.fill(t.station.va(0), 3072, 1);
  PacketFields write{.opcode = Opcode::kWriteOnly,
                     .psn = 3,
                     .bytes = 1024,
                     .seed = 99,
                     .va = t.station.va(2048),
                     .rkey = t.station.keys.rkey,
                     .dma_length = 1024};
  std::vector<std::vector<uint8_t>> sent;
  t.fabric.filter = [&](const wire::ParsedPacket& packet) {
    sent.emplace_back(packet.payload.begin(), packet.payload.end());
    return Fate{};
  };
  t.fabric.add(small_config(2));  // somebody who hears it
  t.peer_burst({read_request(t, 0, 3072), write});
  t.fabric.sink_capacity = UINT32_MAX;
  t.settle();
  t.expect({.opcode = Opcode::kReadResponseFirst, .psn = 0});
  t.expect({.opcode = Opcode::kReadResponseMiddle, .psn = 1});
  t.expect({.opcode = Opcode::kReadResponseLast, .psn = 2});
  ASSERT_GE(sent.size(), 3U);
  for (uint32_t i = 0; i < 1024; ++i) ASSERT_EQ(sent[2][i], FakeMemory::pattern(1, 2048 + i));
  if (GetParam() < 3) {  // the WRITE was not taken: it is asked for again
    t.expect_nak(3, NakCode::kPsnSequence);
    t.peer(write);
  }
  t.expect_ack(3, 2);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(2048), 1024, 99));
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(SinkSizes, RcReadBeforeWriteTest, testing::Values(1, 2, 3, 100));

// The region of the READ goes away while its answer waits: the WRITE behind it must not be executed
// in a queue pair that has just failed.
TEST(RcReadTest, RequestBehindAFailingReadIsNotExecuted) {
  Timeline t;
  t.fabric.sink_capacity = 1;
  t.post_recv(64);
  t.fabric.inject(0, t.peer_packet(read_request(t, 0, 3072)));
  t.fabric.inject(0,
                  t.peer_packet({.opcode = Opcode::kSendOnly, .psn = 3, .bytes = 64, .seed = 5}));
  t.station.memory.answer_next(MemResult::kFault, 1, FakeMemory::Access::kRead);
  t.settle();
  t.expect_nak(0, NakCode::kRemoteAccess);
  t.expect_event(AsyncEventType::kQpAccessErr);
  t.expect_wc_error(0, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  EXPECT_FALSE(t.station.memory.holds(t.station.va(t.kInto), 64, 5));
  t.expect_silence();
}

TEST(RcReadTest, AtMostMaxRdAtomicAreOutstanding) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_rd_atomic = 2}});
  for (int i = 0; i < 3; ++i) t.post_read(4);
  t.post_send(1);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1});
  t.expect_silence();
  t.peer(response(Opcode::kReadResponseOnly, 0, 4));
  t.expect_wc(0);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 2});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 3});
  t.expect_silence();
}

TEST(RcReadTest, FenceWaitsForEarlierReads) {
  Timeline t;
  t.post_read(4);
  t.post_send(1);
  t.post_send(1, abi::kWrSignaled | abi::kWrFence);
  t.post_send(1);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 1});
  t.expect_silence();
  t.peer(response(Opcode::kReadResponseOnly, 0, 4));
  t.expect_wc(0);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 2});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 3});
  t.expect_silence();
}

TEST(RcReadTest, ReadWithoutReadLimitIsABadRequest) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_rd_atomic = 0}});
  t.post_read(4);
  t.expect_wc_error(0, abi::WcStatus::kLocQpOp, abi::VendorErr::kBadWqe);
  t.expect_silence();
}

TEST(RcReadTest, PeerWithoutReadLimitIsRefused) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_dest_rd_atomic = 0}});
  t.peer(read_request(t, 0, 4));
  t.expect_nak(0, NakCode::kInvalidRequest);
  t.expect_event(AsyncEventType::kQpReqErr);
  t.expect_silence();
}

TEST(RcReadTest, MoreUnansweredReadsThanAgreedAreRefused) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_dest_rd_atomic = 2}});
  t.fabric.sink_capacity = 0;
  t.peer_burst({read_request(t, 0, 4), read_request(t, 1, 4), read_request(t, 2, 4)});
  t.fabric.sink_capacity = UINT32_MAX;
  t.settle();
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 0});
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 1});
  t.expect_nak(2, NakCode::kInvalidRequest);
  t.expect_event(AsyncEventType::kQpReqErr);
  t.expect_silence();
}

// READs of 1 GiB with the smallest MTU take 2^22 PSNs each; never more than 2^23 - 1 are
// outstanding.
TEST(RcReadTest, OutstandingPsnsStayBelowHalfTheSpace) {
  constexpr uint32_t kGiB = 1 << 30;
  Timeline t({.connect = {.mtu = PathMtu::k256, .sq_psn = 0xFFFFF0, .rq_psn = 0}});
  const MrSpec spec{t.station.pd, kAccessLocalWrite, 0x10000, kGiB, 0x10000};
  const Key lkey = t.station.device.reg_mr(t.station.client, spec)->lkey;
  for (uint32_t bytes : {kGiB, kGiB - 256}) {
    t.post({.opcode = abi::WrOpcode::kRead, .sges = {{0x10000, bytes, lkey}}});
  }
  t.post_send(4);
  t.post({.opcode = abi::WrOpcode::kRead, .sges = {{0x10000, 4, lkey}}});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0, .dma_length = kGiB});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1 << 22, .dma_length = kGiB - 256});
  t.expect_silence();
  // What is beyond half the space is no answer.
  t.ack((1 << 23) - 1);
  t.expect_silence();
  t.station.memory.answer_next(MemResult::kDone, 2, FakeMemory::Access::kWrite);
  t.peer(response(Opcode::kReadResponseFirst, 0, 256));
  t.expect({.opcode = Opcode::kSendOnly, .psn = (1 << 23) - 1});
  t.expect_silence();
  t.peer({.opcode = Opcode::kReadResponseMiddle, .psn = 1, .bytes = 256});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1 << 23});
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
