// Past, expected and future PSNs for every inbound kind, in the middle of the space and around its
// end. IBTA vol. 1 ch. 9.7.1.1, 9.7.5.1; rules RC-PSN-1, -2, RC-RSP-1, -2, -30, RC-REQ-13, -14.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

struct Kind {
  const char* name;
  Opcode opcode;
};

class RequestPsnTest : public testing::TestWithParam<std::tuple<Kind, uint32_t>> {
 protected:
  Timeline t{{.connect = {.sq_psn = 0x1000, .rq_psn = std::get<1>(GetParam())}}};
  Opcode opcode = std::get<0>(GetParam()).opcode;

  RequestPsnTest() {
    for (int i = 0; i < 4; ++i) t.post_recv(64);
  }

  PacketFields request(uint32_t psn, bool ack_req = true) const {
    const bool read = opcode == Opcode::kReadRequest;
    return {.opcode = opcode,
            .psn = psn,
            .ack_req = ack_req,
            .bytes = read ? 0U : 8U,
            .va = t.station.va(t.kInto),
            .rkey = t.station.keys.rkey,
            .dma_length = 8};
  }
  bool consumes_recv() const {
    return opcode != Opcode::kWriteOnly && opcode != Opcode::kReadRequest;
  }
  void expect_done(uint32_t psn, uint32_t msn, uint32_t recv) {
    if (opcode == Opcode::kReadRequest) {
      t.expect({.opcode = Opcode::kReadResponseOnly, .psn = psn, .msn = msn, .bytes = 8});
    } else {
      t.expect_ack(psn, msn);
    }
    if (consumes_recv()) t.expect_recv(recv, 8);
  }
};

TEST_P(RequestPsnTest, ExpectedIsExecuted) {
  t.peer(request(0));
  expect_done(0, 1, 0);
  t.peer(request(1));
  expect_done(1, 2, 1);
  t.expect_silence();
}

TEST_P(RequestPsnTest, PastIsAnsweredAgainAndNotExecuted) {
  t.peer(request(0));
  expect_done(0, 1, 0);
  t.peer(request(1));
  expect_done(1, 2, 1);
  const uint64_t accesses = t.station.memory.accesses();
  t.peer(request(0));
  if (opcode == Opcode::kReadRequest) {
    t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 0, .msn = 1, .bytes = 8});
  } else {
    t.expect_ack(1, 2);
    EXPECT_EQ(t.station.memory.accesses(), accesses);
  }
  t.peer(request(2));
  expect_done(2, 3, 2);
  t.expect_silence();
}

TEST_P(RequestPsnTest, FutureIsNakedOnceUntilTheExpectedComes) {
  for (const uint32_t psn : {1U, 2U, 5U, 0x7FFFFFU}) t.peer(request(psn));
  t.expect_nak(0, NakCode::kPsnSequence);
  t.expect_silence();
  EXPECT_EQ(t.dropped(DropReason::kRepeatedGap), 3U);
  t.peer(request(0));
  expect_done(0, 1, 0);
  t.peer(request(2));
  t.expect_nak(1, NakCode::kPsnSequence);
  t.expect_silence();
}

TEST_P(RequestPsnTest, HalfTheSpaceBehindIsPast) {
  t.peer(request(0x800000));
  if (opcode == Opcode::kReadRequest) {
    EXPECT_EQ(t.dropped(DropReason::kDuplicateNotFound), 1U);
  } else {
    t.expect_ack(0xFFFFFF, 0);
  }
  t.expect_silence();
}

// A gap noticed and filled within one burst: the NAK names what is missing when it leaves, and what
// follows in the next burst brings no second one.
TEST_P(RequestPsnTest, NakNamesTheExpectedPsnOfWhenItLeaves) {
  t.peer_burst({request(1, false), request(0, false)});
  if (opcode == Opcode::kReadRequest) t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 0});
  t.expect_nak(1, NakCode::kPsnSequence);
  if (consumes_recv()) t.expect_recv(0, 8);
  t.peer_burst({request(2, false), request(3)});
  t.expect_silence();
  t.peer(request(1));
  expect_done(1, 2, 1);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(
    All, RequestPsnTest,
    testing::Combine(testing::Values(Kind{"SendOnly", Opcode::kSendOnly},
                                     Kind{"SendOnlyImm", Opcode::kSendOnlyImm},
                                     Kind{"WriteOnly", Opcode::kWriteOnly},
                                     Kind{"WriteOnlyImm", Opcode::kWriteOnlyImm},
                                     Kind{"ReadRequest", Opcode::kReadRequest}),
                     testing::Values(0x5000, 0, 0xFFFFFF, 0xFFFFFE)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "From" +
             std::to_string(std::get<1>(test.param));
    });

class ResponsePsnTest : public testing::TestWithParam<uint32_t> {
 protected:
  Timeline t{{.connect = {.sq_psn = GetParam(), .rq_psn = 0x5000}}};
};

TEST_P(ResponsePsnTest, AckOfThePastIsIgnored) {
  for (int i = 0; i < 3; ++i) t.post_send(1);
  for (uint32_t i = 0; i < 3; ++i) t.expect({.psn = i});
  t.ack(1);
  t.expect_wc(0);
  t.expect_wc(1);
  t.ack(0);
  t.ack(1);
  t.ack(0xFFFFFF);
  EXPECT_EQ(t.dropped(DropReason::kGhostAck), 3U);
  t.expect_silence();
  t.ack(2);
  t.expect_wc(2);
  t.expect_silence();
}

TEST_P(ResponsePsnTest, AckOfTheFutureIsIgnored) {
  t.ack(0);
  t.post_send(1);
  t.expect({.psn = 0});
  t.ack(1);
  t.ack(0x7FFFFF);
  t.nak(1, NakCode::kRemoteAccess);
  t.rnr_nak(7, 1);
  EXPECT_EQ(t.dropped(DropReason::kGhostAck), 5U);
  t.expect_silence();
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

TEST_P(ResponsePsnTest, ReadResponseOfPastAndFutureIsNotPlaced) {
  t.post_read(1024 * 2);
  t.expect({.psn = 0});
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024});
  const uint64_t accesses = t.station.memory.accesses();
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024});
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 2, .bytes = 1024});
  t.peer({.opcode = Opcode::kReadResponseOnly, .psn = 0xFFFFFF, .bytes = 1024});
  EXPECT_EQ(t.station.memory.accesses(), accesses);
  EXPECT_EQ(t.dropped(DropReason::kGhostAck), 3U);
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 1, .bytes = 1024});
  t.expect_wc(0);
  t.expect_silence();
}

TEST_P(ResponsePsnTest, AckInTheMiddleOfAMessageCompletesNothing) {
  t.post_send(3 * 1024);
  for (uint32_t i = 0; i < 3; ++i) t.expect({.psn = i});
  t.ack(1);
  t.expect_silence();
  t.ack(2);
  t.expect_wc(0);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(Bases, ResponsePsnTest,
                         testing::Values(0x1000, 0, 0xFFFFFF, 0xFFFFFE, 0x7FFFFF));

}  // namespace
}  // namespace verbena::test
