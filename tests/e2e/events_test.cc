// Completion channels and completion queues: arming, solicited events, acknowledging, shared
// channels, nonblocking descriptors, resizing under traffic, overflow.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuiet{30};

// Does an event come within the time? It is not taken.
bool readable(const ibv_comp_channel* channel, milliseconds limit) {
  pollfd waiting{channel->fd, POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(limit.count())) == 1;
}

// Takes one event, which must come soon; returns its CQ. Not acknowledged.
ibv_cq* take_event(ibv_comp_channel* channel) {
  if (!readable(channel, kWait)) fail("no completion event came");
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel, &cq, &context) != 0) fail_errno("ibv_get_cq_event", errno);
  return cq;
}

// Device a sends; the receive CQ of device b has a channel.
class EventsTest : public testing::Test {
 protected:
  static QpOptions receiver(ibv_cq* cq) {
    QpOptions options;
    options.recv_cq = cq;
    options.recv_wr = 512;
    return options;
  }

  EventsTest() { connect(a, b); }

  void send(unsigned extra_flags = 0) {
    post_recv(b, next_wr_id_, {});
    post_send(a, {next_wr_id_++, IBV_WR_SEND, IBV_SEND_SIGNALED | extra_flags, {}});
    wait_success(a.send_cq(), "send");
  }
  void arm(bool solicited_only = false) {
    check(ibv_req_notify_cq(cq.get(), solicited_only ? 1 : 0), "ibv_req_notify_cq");
  }
  // Takes, acknowledges, and polls everything.
  void consume_event() {
    EXPECT_EQ(take_event(channel.get()), cq.get());
    ibv_ack_cq_events(cq.get(), 1);
  }
  size_t poll_all() {
    size_t count = 0;
    ibv_wc wc{};
    while (ibv_poll_cq(cq.get(), 1, &wc) == 1) ++count;
    return count;
  }

  Rnic rnic_a{device_name(0)};
  Rnic rnic_b{device_name(1)};
  Owned<ibv_comp_channel> channel = make_channel(rnic_b.context());
  Owned<ibv_cq> cq = make_cq(rnic_b.context(), 512, channel.get());
  Endpoint a{rnic_a};
  Endpoint b{rnic_b, receiver(cq.get())};

 private:
  uint64_t next_wr_id_ = 1;
};

TEST_F(EventsTest, NoEventUnlessArmed) {
  send();
  EXPECT_FALSE(readable(channel.get(), kQuiet));
}

TEST_F(EventsTest, OneEventPerArming) {
  for (int round = 0; round < 20; ++round) {
    arm();
    send();
    send();
    consume_event();
    EXPECT_FALSE(readable(channel.get(), milliseconds(5)));
    EXPECT_EQ(poll_all(), 2u);
  }
}

TEST_F(EventsTest, ArmingTwiceGivesOneEvent) {
  arm();
  arm();
  send();
  consume_event();
  EXPECT_FALSE(readable(channel.get(), kQuiet));
}

// Entries that were there before the arming raise nothing by themselves: a program polls after
// arming, and what comes in between is never lost.
TEST_F(EventsTest, ArmThenPollLosesNothing) {
  constexpr size_t kMessages = 3000;
  std::thread sender([this] {
    for (size_t i = 0; i < kMessages; ++i) {
      post_send(a, {i, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
      wait_success(a.send_cq(), "send");
    }
  });
  for (uint64_t i = 0; i < 256; ++i) post_recv(b, i, {});
  size_t got = 0;
  arm();
  while (got < kMessages) {
    consume_event();
    arm();
    const size_t polled = poll_all();
    for (size_t i = 0; i < polled; ++i) post_recv(b, i, {});
    got += polled;
  }
  sender.join();
  EXPECT_EQ(got, kMessages);
}

TEST_F(EventsTest, SolicitedOnlyWaitsForASolicitedMessage) {
  arm(true);
  send();
  EXPECT_FALSE(readable(channel.get(), kQuiet));
  send(IBV_SEND_SOLICITED);
  consume_event();
  EXPECT_EQ(poll_all(), 2u);
}

TEST_F(EventsTest, SolicitedOnlyFiresForAnError) {
  post_recv(b, 1, {});
  arm(true);
  b.to_state(IBV_QPS_ERR);
  consume_event();
  EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(EventsTest, SolicitedRequestDoesNotWeakenAny) {
  arm(false);
  arm(true);
  send();
  consume_event();
}

TEST_F(EventsTest, ChannelSharedByTwoQueues) {
  const auto cq2 = make_cq(rnic_b.context(), 16, channel.get());
  Endpoint a2(rnic_a);
  Endpoint b2(rnic_b, receiver(cq2.get()));
  connect(a2, b2);
  arm();
  check(ibv_req_notify_cq(cq2.get(), 0), "ibv_req_notify_cq");
  post_recv(b2, 1, {});
  post_send(a2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
  EXPECT_EQ(take_event(channel.get()), cq2.get());
  ibv_ack_cq_events(cq2.get(), 1);
  send();
  consume_event();
  EXPECT_FALSE(readable(channel.get(), kQuiet));
}

TEST_F(EventsTest, EventCarriesTheQueuesContext) {
  int mark = 0;
  const Owned<ibv_cq> marked(ibv_create_cq(rnic_b.context(), 16, &mark, channel.get(), 0));
  Endpoint a2(rnic_a);
  Endpoint b2(rnic_b, receiver(marked.get()));
  connect(a2, b2);
  check(ibv_req_notify_cq(marked.get(), 0), "ibv_req_notify_cq");
  post_recv(b2, 1, {});
  post_send(a2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_TRUE(readable(channel.get(), kWait));
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &from, &context), 0);
  EXPECT_EQ(from, marked.get());
  EXPECT_EQ(context, &mark);
  ibv_ack_cq_events(from, 1);
}

TEST_F(EventsTest, NonblockingDescriptorsWouldBlock) {
  for (const int fd : {channel->fd, rnic_b.context()->async_fd}) {
    ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  }
  ibv_cq* from = nullptr;
  void* context = nullptr;
  EXPECT_NE(ibv_get_cq_event(channel.get(), &from, &context), 0);
  EXPECT_EQ(errno, EAGAIN);
  ibv_async_event event{};
  EXPECT_NE(ibv_get_async_event(rnic_b.context(), &event), 0);
  EXPECT_EQ(errno, EAGAIN);
  arm();
  send();
  consume_event();
}

TEST_F(EventsTest, BlockedReaderWakes) {
  arm();
  std::atomic<bool> woken = false;
  std::thread reader([&] {
    ibv_cq* from = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel.get(), &from, &context) == 0 && from == cq.get()) {
      ibv_ack_cq_events(from, 1);
      woken = true;
    }
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(woken);
  send();
  reader.join();
  EXPECT_TRUE(woken);
}

// ibv_destroy_cq waits until all delivered events are acknowledged.
TEST_F(EventsTest, DestroyWaitsForAcknowledgement) {
  auto doomed = make_cq(rnic_b.context(), 16, channel.get());
  {
    Endpoint a2(rnic_a);
    Endpoint b2(rnic_b, receiver(doomed.get()));
    connect(a2, b2);
    check(ibv_req_notify_cq(doomed.get(), 0), "ibv_req_notify_cq");
    post_recv(b2, 1, {});
    post_send(a2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    ASSERT_EQ(take_event(channel.get()), doomed.get());
  }
  ibv_cq* raw = doomed.release();
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    check(ibv_destroy_cq(raw), "ibv_destroy_cq");
    destroyed = true;
  });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(destroyed) << "destroyed with an event not acknowledged";
  ibv_ack_cq_events(raw, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(EventsTest, UndeliveredEventsGoWithTheQueue) {
  auto doomed = make_cq(rnic_b.context(), 16, channel.get());
  {
    Endpoint a2(rnic_a);
    Endpoint b2(rnic_b, receiver(doomed.get()));
    connect(a2, b2);
    check(ibv_req_notify_cq(doomed.get(), 0), "ibv_req_notify_cq");
    post_recv(b2, 1, {});
    post_send(a2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    wait_success(a2.send_cq(), "send");
    ASSERT_TRUE(readable(channel.get(), kWait));
  }
  arm();
  send();  // an event of the surviving queue, behind the doomed one's
  doomed.reset();
  consume_event();
  EXPECT_FALSE(readable(channel.get(), kQuiet));
}

TEST_F(EventsTest, UndeliveredAsyncEventsGoWithTheQueuePair) {
  auto a2 = std::make_unique<Endpoint>(rnic_a);
  auto b2 = std::make_unique<Endpoint>(rnic_b);
  connect(*a2, *b2);
  post_send(*a2, {1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, {}, 0, 0});
  wait_success(a2->send_cq(), "empty READ");
  Buffer buffer(a2->pd(), 10);
  post_send(*a2, {2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {buffer.sge()}, 0x1000, 0xBAD00});
  EXPECT_EQ(wait_completion(a2->send_cq()).status, IBV_WC_REM_ACCESS_ERR);
  pollfd waiting{rnic_b.context()->async_fd, POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, static_cast<int>(kWait.count())), 1);
  b2.reset();
  EXPECT_TRUE(drain_async_events(rnic_b.context()).empty());
}

// ---- Completion queues ----

TEST_F(EventsTest, ResizeKeepsWhatIsThere) {
  for (uint64_t i = 1; i <= 10; ++i) send();
  ASSERT_EQ(ibv_resize_cq(cq.get(), 5000), 0);
  EXPECT_GE(cq->cqe, 5000);
  ASSERT_EQ(ibv_resize_cq(cq.get(), 16), 0);
  EXPECT_GE(cq->cqe, 16);
  for (uint64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(wait_success(cq.get(), "receive").wr_id, i);
  }
  expect_no_completion(cq.get(), kQuiet);
}

TEST_F(EventsTest, ResizeBelowItsContentsIsRefused) {
  for (int i = 0; i < 100; ++i) send();
  EXPECT_NE(ibv_resize_cq(cq.get(), 10), 0);
  EXPECT_EQ(poll_all(), 100u);
}

TEST_F(EventsTest, ResizeUnderTrafficLosesAndDoublesNothing) {
  constexpr uint64_t kMessages = 20'000;
  std::thread sender([this] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      post_send(a,
                {i, IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, {}, 0, 0, static_cast<uint32_t>(i)});
      wait_success(a.send_cq(), "send");
    }
  });
  for (uint64_t i = 0; i < 200; ++i) post_recv(b, i, {});
  Random random(51);
  uint64_t expected = 0;
  while (expected < kMessages) {
    const ibv_wc wc = wait_success(cq.get(), "receive");
    ASSERT_EQ(ntohl(wc.imm_data), expected);
    ASSERT_EQ(wc.wr_id, expected % 200);
    post_recv(b, expected++ % 200, {});
    if (expected % 50 == 0) {
      ASSERT_EQ(ibv_resize_cq(cq.get(), 300 + static_cast<int>(random.below(4000))), 0);
    }
  }
  sender.join();
  expect_no_completion(cq.get(), kQuiet);
}

// More completions than the queue holds: CQ_ERR, and its queue pairs end in ERR (RC-RSP-46).
TEST_F(EventsTest, OverflowIsAnError) {
  const auto small = make_cq(rnic_b.context(), 4);
  QpOptions options;
  options.recv_cq = small.get();
  options.recv_wr = 1000;
  Endpoint a2(rnic_a);
  Endpoint b2(rnic_b, options);
  connect(a2, b2, {.timeout = 10, .retry_cnt = 1});
  const int messages = small->cqe + 8;
  for (int i = 0; i < messages; ++i) post_recv(b2, 1, {});
  ibv_wc wc{};
  for (int i = 0; i < messages && wc.status == IBV_WC_SUCCESS; ++i) {
    post_send(a2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    wc = wait_completion(a2.send_cq());
  }
  EXPECT_NE(wc.status, IBV_WC_SUCCESS) << "the sender never noticed";
  bool cq_error = false;
  const ibv_async_event first = wait_async_event(rnic_b.context());
  std::vector<ibv_async_event> events = drain_async_events(rnic_b.context());
  events.push_back(first);
  for (const ibv_async_event& event : events) {
    cq_error |= event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == small.get();
  }
  EXPECT_TRUE(cq_error);
  EXPECT_EQ(b2.state(), IBV_QPS_ERR);
  send();  // another queue of the same device
  EXPECT_EQ(poll_all(), 1u);
}

}  // namespace
}  // namespace verbena::e2e
