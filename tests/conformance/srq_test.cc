// Shared receive queues: what becomes of a receive that a queue pair holds when it ends in the
// middle of a message. Rules QP-ERR-4, RC-RSP-24.
#include <gtest/gtest.h>

#include "tests/support/pair.h"

namespace verbena::test {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr uint64_t kBuffer = 0x8000;
constexpr DurationNs kWhile = 1'000'000;  // less than the ACK timeout

// Two connections into one shared receive queue, which has one receive. The first connection is in
// the middle of a message: its Last was lost.
class SharedReceiveTest : public testing::Test {
 protected:
  SharedReceiveTest()
      : a(fabric.add(small_config(1))),
        b(fabric.add(small_config(2))),
        srq(b.add_srq(4, 1)),
        first(a.add_qp()),
        second(a.add_qp()),
        first_there(b.add_qp({}, nullptr, nullptr, &srq)),
        second_there(b.add_qp({}, nullptr, nullptr, &srq)) {
    connect(first, first_there);
    connect(second, second_there);
    post_receive(0);
    fabric.filter = [this](const wire::ParsedPacket& packet) {
      return Fate{.drop = packet.dest_qpn == first_there.qpn() && packet.info->ends_message()};
    };
    send(first, 3 * kMtu);
  }

  void connect(ClientQp& here, ClientQp& there) {
    a.connect(here, b.device.config().gids[0], there.qpn(), {.mtu = PathMtu::k1024}, fabric.now);
    b.connect(there, a.device.config().gids[0], here.qpn(), {.mtu = PathMtu::k1024}, fabric.now);
  }
  void post_receive(uint32_t slot) {
    const abi::Sge sge = b.sge(kBuffer * (slot + 1), 4 * kMtu);
    srq.post_recv(slot, {&sge, 1});
  }
  void send(ClientQp& qp, uint32_t bytes) {
    a.memory.fill(a.va(0), bytes, 1);
    SendRequest request;
    request.sges = {a.sge(0, bytes)};
    qp.post_send(request);
    qp.ring(fabric.now);
    (void)fabric.drive_bounded(kWhile);
  }
  // The second connection's message is received in slot `slot`.
  void expect_received(uint32_t slot) {
    const auto wc = b.cq->poll();
    ASSERT_TRUE(wc.has_value());
    EXPECT_EQ(wc->status, abi::WcStatus::kSuccess);
    EXPECT_EQ(wc->qpn, second_there.qpn());
    EXPECT_TRUE(wc->shared);
    EXPECT_EQ(wc->wqe_index, slot);
    EXPECT_TRUE(b.memory.holds(b.va(kBuffer * (slot + 1)), kMtu, 1));
    EXPECT_FALSE(b.cq->poll().has_value());
    EXPECT_EQ(b.device.stats().out_of_buffer, 0U);
  }

  Fabric fabric;
  Station& a;
  Station& b;
  ClientSrq& srq;
  ClientQp& first;
  ClientQp& second;
  ClientQp& first_there;
  ClientQp& second_there;
};

TEST_F(SharedReceiveTest, DestroyedQueuePairGivesItsReceiveBack) {
  ASSERT_TRUE(b.device.destroy_qp(b.client, first_there.qpn()).ok());
  send(second, kMtu);
  expect_received(0);
}

TEST_F(SharedReceiveTest, ResetQueuePairGivesItsReceiveBack) {
  ASSERT_TRUE(b.set_state(first_there, QpState::kReset, fabric.now).ok());
  send(second, kMtu);
  expect_received(0);
}

TEST_F(SharedReceiveTest, QueuePairInErrorFlushesItsReceive) {
  ASSERT_TRUE(b.set_state(first_there, QpState::kErr, fabric.now).ok());
  const auto wc = b.cq->poll();
  ASSERT_TRUE(wc.has_value());
  EXPECT_EQ(wc->status, abi::WcStatus::kWrFlush);
  EXPECT_EQ(wc->qpn, first_there.qpn());
  EXPECT_TRUE(wc->shared);
  EXPECT_EQ(wc->wqe_index, 0U);
  // The slot is the application's again, and nobody has it until it is posted.
  post_receive(1);
  send(second, kMtu);
  expect_received(1);
}

}  // namespace
}  // namespace verbena::test
