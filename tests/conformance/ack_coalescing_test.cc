// When the responder acknowledges. IBTA vol. 1 ch. 9.7.5.1; rules RC-MSN-1, RC-RSP-30, -40 to -44.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

PacketFields write(const Timeline& t, uint32_t psn, bool ack_req) {
  return {.opcode = Opcode::kWriteOnly,
          .psn = psn,
          .ack_req = ack_req,
          .bytes = 4,
          .va = t.station.va(t.kInto),
          .rkey = t.station.keys.rkey,
          .dma_length = 4};
}

TEST(AckCoalescingTest, OneAckAnswersABurst) {
  Timeline t;
  t.peer_burst({write(t, 0, true), write(t, 1, true), write(t, 2, true)});
  t.expect({.opcode = Opcode::kAcknowledge,
            .psn = 2,
            .syndrome = 0x1F,
            .msn = 3,
            .ack_req = false,
            .solicited = false});
  t.expect_silence();
}

TEST(AckCoalescingTest, WithoutAckReqNoAck) {
  Timeline t;
  t.peer_burst({write(t, 0, false), write(t, 1, false)});
  t.expect_silence();
  t.peer(write(t, 2, true));
  t.expect_ack(2, 3);
  t.expect_silence();
}

TEST(AckCoalescingTest, AckNamesTheLastPacketThatAskedForIt) {
  Timeline t;
  t.peer_burst({write(t, 0, true), write(t, 1, false)});
  t.expect_ack(0, 2);
  t.expect_silence();
}

TEST(AckCoalescingTest, MsnCountsMessagesNotPackets) {
  Timeline t;
  PacketFields first = write(t, 0, true);
  first.opcode = Opcode::kWriteFirst;
  first.bytes = 1024;
  first.dma_length = 1028;
  t.peer(first);
  t.expect_ack(0, 0);
  t.peer({.opcode = Opcode::kWriteLast, .psn = 1, .bytes = 4});
  t.expect_ack(1, 1);
  t.expect_silence();
}

TEST(AckCoalescingTest, NakReplacesTheAckOfWhatIsBefore) {
  Timeline t;
  t.peer_burst({write(t, 0, true), write(t, 2, true)});
  t.expect({.opcode = Opcode::kAcknowledge, .psn = 1, .syndrome = 0x60, .msn = 1});
  t.expect_silence();
}

TEST(AckCoalescingTest, DuplicateIsAckedEvenWithoutAckReq) {
  Timeline t;
  t.peer(write(t, 0, true));
  t.expect_ack(0, 1);
  t.peer(write(t, 0, false));
  t.expect_ack(0, 1);
  t.expect_silence();
}

TEST(AckCoalescingTest, FullSinkDelaysTheAckAndLosesNothing) {
  Timeline t;
  t.fabric.sink_capacity = 0;
  t.peer(write(t, 0, true));
  t.expect_silence();
  EXPECT_TRUE(t.station.device.has_work());
  t.fabric.sink_capacity = 1;
  t.settle();
  t.expect_ack(0, 1);
  EXPECT_FALSE(t.station.device.has_work());
  t.expect_silence();
}

TEST(AckCoalescingTest, ResponsesBeginBeforeRequestsOfOurOwn) {
  Timeline t;
  t.fabric.inject(0, t.peer_packet(write(t, 0, true)));
  t.qp.post_send({.sges = {t.station.sge(0, 1)}});
  t.qp.ring(t.fabric.now);
  t.settle();
  t.expect_ack(0, 1);
  t.expect({.opcode = Opcode::kSendOnly});
  t.expect_silence();
}

// RTR answers, and tells once that the connection is established (RC-RSP-44).
TEST(AckCoalescingTest, FirstRequestInRtrEstablishes) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = QpState::kRtr});
  t.peer(write(t, 0, true));
  t.expect_ack(0, 1);
  t.expect_event(AsyncEventType::kCommEst);
  t.peer(write(t, 1, true));
  t.expect_ack(1, 2);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
