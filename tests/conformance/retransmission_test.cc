// ACK timeouts, retry counts, what is sent again. IBTA vol. 1 ch. 9.7.6; rules RC-REQ-16, -21,
// -30 to -33.
#include <gtest/gtest.h>

#include "stack/wire/syndrome.h"
#include "tests/conformance/timeline.h"
#include "tools/sim/random.h"

namespace verbena::test {
namespace {

TimelineOptions with_timeout(uint32_t timeout, uint32_t retry_cnt) {
  return {
      .connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .timeout = timeout, .retry_cnt = retry_cnt}};
}

class AckTimeoutTest : public testing::TestWithParam<uint32_t> {};

TEST_P(AckTimeoutTest, FiresAfterTheIntervalOfItsCode) {
  Timeline t(with_timeout(GetParam(), 7));
  const DurationNs interval = DurationNs{4096} << GetParam();
  t.post_send(1);
  t.expect({.psn = 0});
  t.pass(interval - 1);
  t.expect_silence();
  t.pass(1);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0});
  EXPECT_EQ(t.station.device.stats().local_ack_timeout_err, 1U);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(Codes, AckTimeoutTest, testing::Values(1, 8, 10, 14, 18, 20, 31));

TEST(RetransmissionTest, ZeroMeansNoTimeout) {
  Timeline t(with_timeout(0, 7));
  t.post_send(1);
  t.expect({.psn = 0});
  EXPECT_EQ(t.station.device.next_timeout(), kNever);
  t.pass(1'000'000'000'000);
  t.expect_silence();
}

class RetryCountTest : public testing::TestWithParam<uint32_t> {};

// Seven is seven, not infinite.
TEST_P(RetryCountTest, FailsAfterThatManyRetries) {
  Timeline t(with_timeout(10, GetParam()));
  t.post_send(1);
  t.post_send(1);
  const Timestamp start = t.fabric.now;
  t.pass(60'000'000'000);
  for (uint32_t i = 0; i <= GetParam(); ++i) {
    t.expect({.psn = 0});
    t.expect({.psn = 1});
  }
  t.expect_wc_error(0, abi::WcStatus::kRetryExc, abi::VendorErr::kTimeoutExhausted);
  t.expect_wc_error(1, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  EXPECT_EQ(t.state(), QpState::kErr);
  EXPECT_EQ(t.station.device.stats().retry_exceeded_err, 1U);
  EXPECT_EQ(t.station.device.next_timeout(), kNever);
  EXPECT_GE(t.fabric.now - start, (GetParam() + 1) * ack_timeout(10));
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(Counts, RetryCountTest, testing::Values(0, 1, 2, 7));

// A turn that begins with packets sent before and goes on with new ones counts the former alone.
TEST(RetransmissionTest, CountsWhatIsSentAgainAndNothingElse) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .window_packets = 4});
  t.post_send(6 * Timeline::kMtu);
  for (uint32_t psn = 0; psn < 4; ++psn) t.expect({.psn = psn});
  t.expect_silence();
  t.nak(2, NakCode::kPsnSequence);
  for (uint32_t psn = 2; psn < 6; ++psn) t.expect({.psn = psn});
  EXPECT_EQ(t.station.device.stats().retransmitted_pkts, 2U);
  t.ack(5);
  t.expect_wc(0);
  EXPECT_EQ(t.station.device.stats().retransmitted_pkts, 2U);
  t.expect_silence();
}

TEST(RetransmissionTest, AckRestartsTheTimerAndTheCount) {
  Timeline t(with_timeout(10, 1));
  t.post_send(1);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.pass(ack_timeout(10));
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.ack(0);
  t.expect_wc(0);
  t.pass(ack_timeout(10) - 1);
  t.expect_silence();
  t.pass(1);
  t.expect({.psn = 1});
  t.ack(1);
  t.expect_wc(1);
  t.pass(1'000'000'000);
  t.expect_silence();
}

TEST(RetransmissionTest, GhostAckDoesNotRestartTheTimer) {
  Timeline t(with_timeout(10, 1));
  t.post_send(1);
  t.ack(0);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect_wc(0);
  t.expect({.psn = 1});
  t.pass(ack_timeout(10) - 1);
  t.ack(0);
  t.pass(1);
  t.expect({.psn = 1});
  t.expect_silence();
}

TEST(RetransmissionTest, TimeoutGoesBackToTheOldestUnacknowledgedPacket) {
  Timeline t(with_timeout(10, 7));
  t.post_send(3 * 1024);
  t.post_write(1);
  for (uint32_t i = 0; i < 4; ++i) t.expect({.psn = i});
  t.ack(0);
  t.pass(ack_timeout(10));
  t.expect({.opcode = Opcode::kSendMiddle, .psn = 1});
  t.expect({.opcode = Opcode::kSendLast, .psn = 2});
  t.expect({.opcode = Opcode::kWriteOnly, .psn = 3});
  t.ack(3);
  t.expect_wc(0);
  t.expect_wc(1);
  t.expect_silence();
}

TEST(RetransmissionTest, ReadIsAskedForAgainFromWhatIsMissing) {
  Timeline t(with_timeout(10, 7));
  t.post_read(3000);
  t.expect({.psn = 0});
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024});
  t.pass(ack_timeout(10));
  t.expect({.opcode = Opcode::kReadRequest,
            .psn = 1,
            .va = t.kPeerVa + 1024,
            .dma_length = 3000 - 1024});
  t.expect_silence();
}

// What the client writes into the ring after the entry was taken changes nothing.
TEST(RetransmissionTest, WhatIsSentAgainIsWhatWasPosted) {
  Timeline t(with_timeout(10, 7));
  t.post_write(1500);
  t.expect({.opcode = Opcode::kWriteFirst, .psn = 0, .rkey = t.kPeerRkey});
  t.expect({.psn = 1});
  std::fill_n(t.qp.send_slot(0), t.qp.layout().sq_stride, uint8_t{0xFF});
  t.pass(ack_timeout(10));
  t.expect({.opcode = Opcode::kWriteFirst,
            .psn = 0,
            .va = t.kPeerVa,
            .rkey = t.kPeerRkey,
            .dma_length = 1500,
            .bytes = 1024});
  t.expect({.opcode = Opcode::kWriteLast, .psn = 1, .bytes = 476});
  t.ack(1);
  t.expect_wc(0);
  t.expect_silence();
}

// The device could not send what a retry is to send: the peer has had no chance to answer, so the
// wait costs no retries.
TEST(RetransmissionTest, RetryThatCannotBeSentIsNotCounted) {
  Timeline t(with_timeout(10, 1));
  t.post_send(1);
  t.expect({.psn = 0});
  t.fabric.sink_capacity = 0;
  t.pass(10 * ack_timeout(10));
  t.expect_silence();
  t.fabric.sink_capacity = UINT32_MAX;
  t.settle();
  t.expect({.psn = 0});
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(RetransmissionTest, WindowStopsAndTheLastPacketAsksForTheAck) {
  TimelineOptions options;
  options.window_packets = 4;
  Timeline t(options);
  t.post_send(10 * 1024);
  for (uint32_t i = 0; i < 4; ++i) t.expect({.psn = i, .ack_req = i == 3});
  t.expect_silence();
  t.ack(3);
  for (uint32_t i = 4; i < 8; ++i) t.expect({.psn = i, .ack_req = i == 7});
  t.expect_silence();
  t.ack(5);
  t.expect({.psn = 8});
  t.expect({.psn = 9, .ack_req = true});
  t.ack(9);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(RetransmissionTest, EveryFourthPacketLostStillArrives) {
  Pair pair;
  Random random(4);
  pair.filter = [&](const wire::ParsedPacket&) { return Fate{.drop = random.chance(250)}; };
  pair.a.memory.fill(pair.a.va(0), 20'000, 5);
  pair.qa.post_send({.opcode = abi::WrOpcode::kWrite,
                     .sges = {pair.a.sge(0, 20'000)},
                     .rkey = pair.b.keys.rkey,
                     .remote_va = pair.b.va(0)});
  pair.qa.ring(pair.now);
  pair.drive();
  const auto wcs = pair.a.cq->poll_all();
  ASSERT_EQ(wcs.size(), 1U);
  EXPECT_EQ(wcs[0].status, abi::WcStatus::kSuccess);
  EXPECT_TRUE(pair.b.memory.holds(pair.b.va(0), 20'000, 5));
}

}  // namespace
}  // namespace verbena::test
