// Receiver not ready, both sides. IBTA vol. 1 ch. 9.7.5.2.8; rules RC-REQ-35, -40 to -42, RC-RSP-3,
// -24.
#include <gtest/gtest.h>

#include "stack/wire/syndrome.h"
#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

TimelineOptions with_retries(uint32_t rnr_retry, uint32_t retry_cnt = 7) {
  return {.connect = {
              .sq_psn = 0x1000, .rq_psn = 0x5000, .retry_cnt = retry_cnt, .rnr_retry = rnr_retry}};
}

TEST(RnrTest, NoReceiveIsNotReadyAndTheRestOfTheBurstIsIgnored) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .min_rnr_timer = 12}});
  t.peer_burst({{.opcode = Opcode::kSendFirst, .psn = 0, .bytes = 1024},
                {.opcode = Opcode::kSendLast, .psn = 1, .bytes = 4},
                {.opcode = Opcode::kSendOnly, .psn = 2, .bytes = 4}});
  t.expect_rnr_nak(0, 12);
  t.expect_silence();
  EXPECT_EQ(t.station.device.stats().out_of_buffer, 1U);
  t.post_recv(2000);
  t.peer_burst({{.opcode = Opcode::kSendFirst, .psn = 0, .bytes = 1024},
                {.opcode = Opcode::kSendLast, .psn = 1, .bytes = 4},
                {.opcode = Opcode::kSendOnly, .psn = 2, .bytes = 4}});
  t.expect_rnr_nak(2, 12);  // acknowledges the first message
  t.expect_recv(0, 1028);
  t.expect_silence();
}

TEST(RnrTest, RequesterWaitsTheDelayThenSendsAgain) {
  Timeline t;
  t.post_send(1);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.rnr_nak(1, 20);  // 10.24 ms
  t.expect_wc(0);
  t.pass(rnr_delay(20) - 1);
  t.expect_silence();
  t.pass(1);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 1});
  t.ack(1);
  t.expect_wc(1);
  t.expect_silence();
}

TEST(RnrTest, SecondNakAndSequenceNakDuringTheWaitAreIgnored) {
  Timeline t(with_retries(1, 0));
  t.post_send(1);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.rnr_nak(0, 20);
  t.rnr_nak(0, 1);
  t.nak(0, NakCode::kPsnSequence);
  t.pass(rnr_delay(20) - 1);
  t.expect_silence();
  t.pass(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.expect_silence();
}

TEST(RnrTest, TransportTimerRestsDuringTheWait) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .timeout = 8, .retry_cnt = 0}});
  t.post_send(1);
  t.expect({.psn = 0});
  t.rnr_nak(0, 28);  // 163.84 ms, far longer than the ACK timeout of 1 ms
  t.pass(rnr_delay(28));
  t.expect({.psn = 0});
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(RnrTest, WorkPostedDuringTheWaitWaitsToo) {
  Timeline t;
  t.post_send(1);
  t.expect({.psn = 0});
  t.rnr_nak(0, 20);
  t.post_send(1);
  t.expect_silence();
  t.pass(rnr_delay(20));
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.expect_silence();
}

TEST(RnrTest, NoRetriesMeansTheFirstNakFails) {
  Timeline t(with_retries(0));
  t.post_send(1);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.rnr_nak(0, 1);
  t.expect_wc_error(0, abi::WcStatus::kRnrRetryExc, abi::VendorErr::kRnrExhausted);
  t.expect_wc_error(1, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.pass(1'000'000'000);
  t.expect_silence();
}

TEST(RnrTest, RetriesAreCountedAndProgressRestoresThem) {
  Timeline t(with_retries(2));
  t.post_send(1);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  for (int i = 0; i < 2; ++i) {
    t.rnr_nak(0, 1);
    t.pass(rnr_delay(1));
    t.expect({.psn = 0});
    t.expect({.psn = 1});
  }
  for (int i = 0; i < 2; ++i) {
    t.rnr_nak(1, 1);  // acknowledges the first: progress
    t.pass(rnr_delay(1));
    t.expect({.psn = 1});
  }
  t.expect_wc(0);
  t.rnr_nak(1, 1);
  t.expect_wc_error(1, abi::WcStatus::kRnrRetryExc, abi::VendorErr::kRnrExhausted);
  t.expect_silence();
}

TEST(RnrTest, SevenIsForEver) {
  Timeline t(with_retries(7));
  t.post_send(1);
  t.expect({.psn = 0});
  for (int i = 0; i < 100; ++i) {
    t.rnr_nak(0, 1);
    t.pass(rnr_delay(1));
    t.expect({.psn = 0});
  }
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(RnrTest, DelayTable) {
  EXPECT_EQ(rnr_delay(0), 655'360'000U);
  EXPECT_EQ(rnr_delay(1), 10'000U);
  EXPECT_EQ(rnr_delay(14), 1'280'000U);
  EXPECT_EQ(rnr_delay(31), 491'520'000U);
}

TEST(RnrTest, BothSidesTogether) {
  Pair pair;
  pair.qa.post_send({.sges = {pair.a.sge(0, 3000)}});
  pair.qa.ring(pair.now);
  EXPECT_FALSE(pair.drive_bounded(5'000'000));
  EXPECT_GT(pair.a.device.stats().rnr_nak_received, 100U);
  pair.qb.post_recv(std::vector{pair.b.sge(0, 3000)});
  pair.drive();
  EXPECT_EQ(pair.a.cq->poll_all().size(), 1U);
  EXPECT_EQ(pair.b.cq->poll_all().size(), 1U);
  EXPECT_EQ(pair.a.device.stats().local_ack_timeout_err, 0U);
}

}  // namespace
}  // namespace verbena::test
