// Completion queues: overflow, arming, resizing. Rules RC-RSP-45, -46; stack/abi/ring.h, cqe.h.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

PacketFields send(uint32_t psn, bool solicited = false) {
  return {.opcode = Opcode::kSendOnly,
          .psn = psn,
          .ack_req = false,
          .solicited = solicited,
          .bytes = 1};
}

// A timeline whose receives complete on a small CQ of their own.
struct SmallCq {
  explicit SmallCq(uint32_t cqe, bool channel = true)
      : cq(t.station.add_cq(cqe, channel, 0xABC)), qp(t.station.add_qp({}, t.station.cq, &cq)) {
    t.station.connect(qp, small_config(2).gids[0], t.kPeerQpn, {}, 0);
    path.source_mac = small_config(2).mac;
    path.dest_mac = small_config(1).mac;
    path.source_gid = small_config(2).gids[0];
    path.dest_gid = small_config(1).gids[0];
  }
  // Receives `count` messages.
  void receive(uint32_t count, bool solicited = false) {
    for (uint32_t i = 0; i < count; ++i) {
      qp.post_recv(std::vector{t.station.sge(0, 8)});
      t.fabric.inject(0, build_packet(path, qp.qpn(), send(psn++, solicited)));
      t.fabric.step();
    }
  }
  std::vector<DeviceEvent> events() { return t.station.take_events(); }

  Timeline t;
  ClientCq& cq;
  ClientQp& qp;
  wire::Path path;
  uint32_t psn = 0;
};

TEST(CompletionQueueTest, OverflowIsAnErrorOfTheQueueAndOfItsQueuePair) {
  SmallCq s(4);
  s.receive(4);
  EXPECT_TRUE(s.events().empty());
  s.receive(1);
  const auto events = s.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, DeviceEvent::Kind::kCqAsync);
  EXPECT_EQ(events[0].async, AsyncEventType::kCqErr);
  EXPECT_EQ(events[0].user_handle, 0xABCU);
  EXPECT_EQ(events[1].async, AsyncEventType::kQpFatal);
  EXPECT_EQ(s.t.station.state(s.qp), QpState::kErr);
  EXPECT_EQ(s.cq.poll_all().size(), 4U);
  EXPECT_EQ(s.t.station.device.stats().cq_overruns, 1U);
}

TEST(CompletionQueueTest, ConsumedEntriesMakeRoom) {
  SmallCq s(4);
  for (int round = 0; round < 10; ++round) {
    s.receive(3);
    EXPECT_EQ(s.cq.poll_all().size(), 3U);
  }
  EXPECT_EQ(s.t.station.state(s.qp), QpState::kRts);
}

class ConsumerLieTest : public testing::TestWithParam<uint32_t> {};

// Whatever the client claims to have consumed, it overruns its own queue at worst.
TEST_P(ConsumerLieTest, CostsOnlyItsOwnQueue) {
  SmallCq s(4);
  s.cq.header().consumer.store(GetParam());
  s.receive(12);
  s.cq.header().consumer.store(~GetParam());
  s.receive(12);
  EXPECT_EQ(s.t.state(), QpState::kRts);  // the other queue pair
}

INSTANTIATE_TEST_SUITE_P(Values, ConsumerLieTest,
                         testing::Values(1, 4, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF));

TEST(CompletionQueueTest, ArmedForAnyFiresOnce) {
  SmallCq s(16);
  s.receive(1);
  EXPECT_TRUE(s.events().empty());
  s.cq.arm(abi::kArmAny);
  s.receive(2);
  const auto events = s.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, DeviceEvent::Kind::kCompletion);
  EXPECT_EQ(events[0].object, s.cq.id());
  EXPECT_EQ(events[0].user_handle, 0xABCU);
  s.cq.arm(abi::kArmAny);
  s.receive(1);
  EXPECT_EQ(s.events().size(), 1U);
}

TEST(CompletionQueueTest, ArmedForSolicitedWaitsForOne) {
  SmallCq s(16);
  s.cq.arm(abi::kArmSolicited);
  s.receive(2, false);
  EXPECT_TRUE(s.events().empty());
  s.receive(1, true);
  EXPECT_EQ(s.events().size(), 1U);
}

TEST(CompletionQueueTest, ArmedForSolicitedFiresOnAnError) {
  SmallCq s(16);
  s.qp.post_recv(std::vector{s.t.station.sge(0, 8)});
  s.cq.arm(abi::kArmSolicited);
  ASSERT_TRUE(s.t.station.set_state(s.qp, QpState::kErr, 0).ok());
  s.t.fabric.step();
  EXPECT_EQ(s.events().size(), 1U);
}

TEST(CompletionQueueTest, WithoutChannelNoEvents) {
  SmallCq s(16, false);
  s.cq.arm(abi::kArmAny);
  s.receive(2, true);
  EXPECT_TRUE(s.events().empty());
}

TEST(CompletionQueueTest, ResizeKeepsWhatWaitsAndTheArm) {
  SmallCq s(8);
  s.receive(5);
  EXPECT_EQ(s.cq.poll()->wqe_index, 0U);
  s.cq.arm(abi::kArmAny);
  ASSERT_TRUE(s.cq.resize(64).ok());
  s.receive(20);
  EXPECT_EQ(s.events().size(), 1U);
  const auto all = s.cq.poll_all();
  ASSERT_EQ(all.size(), 24U);
  for (uint32_t i = 0; i < 24; ++i) EXPECT_EQ(all[i].wqe_index, i + 1);
  ASSERT_TRUE(s.cq.resize(2).ok());
  s.receive(2);
  EXPECT_EQ(s.cq.poll_all().size(), 2U);
}

TEST(CompletionQueueTest, ResizeBelowWhatWaitsIsRefused) {
  SmallCq s(8);
  s.receive(5);
  EXPECT_EQ(s.cq.resize(4).error(), EINVAL);
  EXPECT_EQ(s.cq.poll_all().size(), 5U);
}

TEST(CompletionQueueTest, IndicesWrap) {
  SmallCq s(2);
  for (uint32_t i = 0; i < 70; ++i) {
    s.receive(1);
    const auto wc = s.cq.poll();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->wqe_index, i);
  }
}

TEST(CompletionQueueTest, InUseIsBusy) {
  SmallCq s(4);
  Device& device = s.t.station.device;
  EXPECT_EQ(device.destroy_cq(s.t.station.client, s.cq.id()).error(), EBUSY);
  ASSERT_TRUE(device.destroy_qp(s.t.station.client, s.qp.qpn()).ok());
  EXPECT_TRUE(device.destroy_cq(s.t.station.client, s.cq.id()).ok());
  EXPECT_EQ(device.destroy_cq(s.t.station.client, s.cq.id()).error(), EINVAL);
}

}  // namespace
}  // namespace verbena::test
