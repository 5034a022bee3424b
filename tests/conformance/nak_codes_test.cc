// What each NAK code does at the requester. IBTA vol. 1 ch. 9.7.5.2, 9.9.2; rules RC-REQ-10, -15,
// -20, -21, facts of section 4.4.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

struct Fatal {
  const char* name;
  NakCode code;
  abi::WcStatus status;
  abi::VendorErr vendor;
};

class FatalNakTest : public testing::TestWithParam<Fatal> {};

TEST_P(FatalNakTest, FailsItsRequestAndFlushesTheRest) {
  Timeline t;
  t.post_recv(10);
  t.post_send(1, 0);
  t.post_send(1);
  t.post_write(2000);
  t.post_read(10);
  for (uint32_t psn : {0U, 1U, 2U, 3U, 4U}) t.expect({.psn = psn});
  t.nak(3, GetParam().code);
  t.expect_wc(1);
  t.expect_wc_error(2, GetParam().status, GetParam().vendor);
  t.expect_wc_error(3, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  t.expect_wc_error(0, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.pass(10'000'000'000);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(
    All, FatalNakTest,
    testing::Values(Fatal{"InvalidRequest", NakCode::kInvalidRequest, abi::WcStatus::kRemInvReq,
                          abi::VendorErr::kNakInvalidRequest},
                    Fatal{"RemoteAccess", NakCode::kRemoteAccess, abi::WcStatus::kRemAccess,
                          abi::VendorErr::kNakRemoteAccess},
                    Fatal{"RemoteOperational", NakCode::kRemoteOperational, abi::WcStatus::kRemOp,
                          abi::VendorErr::kNakRemoteOperational}),
    [](const auto& test) { return test.param.name; });

TEST(NakCodesTest, SequenceNakGoesBackAndAcknowledgesWhatIsBefore) {
  Timeline t;
  for (int i = 0; i < 3; ++i) t.post_send(1);
  for (uint32_t i = 0; i < 3; ++i) t.expect({.psn = i});
  t.nak(1, NakCode::kPsnSequence);
  t.expect_wc(0);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 1});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 2});
  t.expect_silence();
}

TEST(NakCodesTest, GoingBackIntoAMessageContinuesThere) {
  Timeline t;
  t.post_write(3 * 1024 + 1);
  for (uint32_t i = 0; i < 4; ++i) t.expect({.psn = i});
  t.nak(2, NakCode::kPsnSequence);
  t.expect({.opcode = Opcode::kWriteMiddle, .psn = 2, .bytes = 1024});
  t.expect({.opcode = Opcode::kWriteLast, .psn = 3, .bytes = 1});
  t.ack(3);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(NakCodesTest, SequenceNaksUseUpTheRetries) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .retry_cnt = 2}});
  t.post_send(1);
  t.expect({.psn = 0});
  for (int i = 0; i < 2; ++i) {
    t.nak(0, NakCode::kPsnSequence);
    t.expect({.psn = 0});
  }
  t.nak(0, NakCode::kPsnSequence);
  t.expect_wc_error(0, abi::WcStatus::kRetryExc, abi::VendorErr::kSequenceExhausted);
  t.expect_silence();
}

// Repeated on the way, or sent again by an eager responder: before anything was sent again it says
// nothing new.
TEST(NakCodesTest, NaksInOneBurstCostOneRetry) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .retry_cnt = 1}});
  t.post_send(1);
  t.expect({.psn = 0});
  const PacketFields nak{
      .opcode = Opcode::kAcknowledge, .psn = 0, .syndrome = nak_syndrome(NakCode::kPsnSequence)};
  t.peer_burst({nak, nak, nak});
  t.expect({.psn = 0});
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

class ReservedSyndromeTest : public testing::TestWithParam<uint8_t> {};

TEST_P(ReservedSyndromeTest, IsIgnored) {
  Timeline t;
  t.post_send(1);
  t.expect({.psn = 0});
  t.peer({.opcode = Opcode::kAcknowledge, .psn = 0, .syndrome = GetParam()});
  EXPECT_EQ(t.dropped(DropReason::kReservedSyndrome), 1U);
  t.expect_silence();
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(All, ReservedSyndromeTest,
                         testing::Values(0x40, 0x41, 0x5F, 0x64, 0x65, 0x7F));

// Credits are not used: whatever an ACK says about them is an ACK.
TEST(NakCodesTest, AckWithAnyCreditsIsAnAck) {
  Timeline t;
  uint32_t psn = 0;
  for (const int credits : {0x00, 0x05, 0x1E, 0x1F}) {
    t.post_send(1);
    t.expect({.psn = psn});
    t.peer({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = static_cast<uint8_t>(credits)});
    t.expect_wc(psn++);
  }
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
