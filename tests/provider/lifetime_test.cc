// The daemon's death, events and their acknowledgement, and threads.

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/provider/provider_fixture.h"

namespace verbena::test {
namespace {

using DaemonDeathTest = ProviderTest;
using EventTest = ProviderTest;
using ThreadTest = ProviderTest;

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST_F(DaemonDeathTest, EverythingOutstandingIsFlushedInOrder) {
  make_cq(16);
  ibv_qp* qp = make_qp();
  to_rts(qp);
  ASSERT_EQ(post_send(qp, 10), 0);
  ASSERT_EQ(post_send(qp, 11, IBV_WR_RDMA_READ, 0), 0);  // unsignalled
  ASSERT_EQ(post_send(qp, 12, IBV_WR_RDMA_WRITE), 0);
  ASSERT_EQ(post_recv(qp, 20), 0);
  ASSERT_EQ(post_recv(qp, 21), 0);
  fake(cq_)->push(qp->qp_num, 0, abi::kCqeSend);
  daemon_.die();

  const auto start = steady_clock::now();
  const auto done = poll(cq_, 5);
  EXPECT_LT(steady_clock::now() - start, milliseconds(500));
  EXPECT_EQ(done.at(0).status, IBV_WC_SUCCESS) << "what the daemon had finished";
  EXPECT_EQ(done.at(0).wr_id, 10U);
  const uint64_t wr_ids[] = {11, 12, 20, 21};
  const ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV, IBV_WC_RECV};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done.at(i + 1).wr_id, wr_ids[i]);
    EXPECT_EQ(done.at(i + 1).opcode, opcodes[i]);
    EXPECT_EQ(done.at(i + 1).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(done.at(i + 1).vendor_err, static_cast<uint32_t>(abi::VendorErr::kDaemonGone));
    EXPECT_EQ(done.at(i + 1).qp_num, qp->qp_num);
  }
  // Those posted later as well, more of them than the ring is deep.
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(post_send(qp, 100 + i), 0);
    ASSERT_EQ(poll(cq_, 1).at(0).wr_id, 100 + i);
  }
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
}

TEST_F(DaemonDeathTest, EachQueueFlushesWhereItCompletes) {
  ibv_cq* sends = make_cq();
  ibv_cq* recvs = make_cq();
  ibv_qp_init_attr attr{};
  attr.send_cq = sends;
  attr.recv_cq = recvs;
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = keep(ibv_create_qp(pd_, &attr));
  ASSERT_NE(qp, nullptr);
  to_rts(qp);
  post_send(qp, 1);
  post_recv(qp, 2);
  daemon_.die();
  EXPECT_EQ(poll(recvs, 1).at(0).wr_id, 2U);
  EXPECT_EQ(poll(sends, 1).at(0).wr_id, 1U);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(recvs, 1, &wc), 0);
}

TEST_F(DaemonDeathTest, ControlVerbsFailButCleaningUpWorks) {
  ibv_comp_channel* channel = make_channel();
  make_cq(4, channel);
  ibv_qp* qp = make_qp();
  ibv_mr* mr = ibv_reg_mr(pd_, buffer_, 64, 0);
  daemon_.die();
  EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(modify_state(qp, IBV_QPS_INIT), EIO);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 1, &port), EIO);
  ibv_cq* event_cq;
  void* event_context;
  EXPECT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), -1) << "end of file, no hang";
  ibv_async_event event;
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(destroy(cq_), EBUSY);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(cq_), 0);
  EXPECT_EQ(destroy(channel), 0);
  EXPECT_EQ(destroy(pd_), 0);
}

TEST_F(EventTest, DestroyingACqWaitsForItsAcknowledgements) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* cq = make_cq(4, channel);
  daemon_.send_completion_event(reinterpret_cast<uint64_t>(cq));
  daemon_.send_async(reinterpret_cast<uint64_t>(cq), IBV_EVENT_CQ_ERR);
  ibv_cq* event_cq;
  void* event_context;
  ASSERT_EQ(ibv_get_cq_event(channel, &event_cq, &event_context), 0);
  EXPECT_EQ(event_cq, cq);
  EXPECT_EQ(event_context, this);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.element.cq, cq);
  {
    const auto lock = daemon_.state();
    daemon_.delivered = {1, 1};
  }
  std::atomic<int> acknowledged{0};
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(milliseconds(20));
    acknowledged = 1;
    ibv_ack_cq_events(cq, 1);
    std::this_thread::sleep_for(milliseconds(20));
    acknowledged = 2;
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(destroy(cq), 0);
  EXPECT_EQ(acknowledged, 2);
  acknowledger.join();
  EXPECT_EQ(destroy(channel), 0);
}

TEST_F(EventTest, DestroyingAQpWaitsForItsAcknowledgements) {
  ibv_qp* qp = make_qp();
  daemon_.send_async(reinterpret_cast<uint64_t>(qp), IBV_EVENT_QP_FATAL);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  ASSERT_EQ(event.element.qp, qp);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  {
    const auto lock = daemon_.state();
    daemon_.delivered = {0, 1};
  }
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(milliseconds(20));
    acknowledged = true;
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

TEST_F(ThreadTest, TwoPollersShareAQueueWithoutLossOrRepetition) {
  constexpr uint32_t kCount = 20000;
  make_cq(64);
  ibv_qp* qp = make_qp({.send_wr = 64});
  to_rts(qp);
  const auto ring = fake(cq_);
  std::vector<std::atomic<int>> seen(kCount);
  std::atomic<uint32_t> total{0};
  const auto poller = [&] {
    ibv_wc wc[8];
    while (total < kCount) {
      const int got = ibv_poll_cq(cq_, 8, wc);
      for (int i = 0; i < got; ++i) ++seen[wc[i].wr_id];
      total += static_cast<uint32_t>(got);
    }
  };
  std::thread first(poller), second(poller);
  for (uint32_t i = 0; i < kCount; ++i) {
    while (post_send(qp, i) == ENOMEM) std::this_thread::yield();
    ring->push(qp->qp_num, i, abi::kCqeSend);
  }
  first.join();
  second.join();
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(seen[i], 1) << i;
}

TEST_F(ThreadTest, PollingGoesOnWhileQueuePairsComeAndGo) {
  make_cq(64);
  ibv_qp* busy = make_qp({.send_wr = 64});
  to_rts(busy);
  const auto ring = fake(cq_);
  {
    const auto lock = daemon_.state();
    daemon_.reuse_qpns = true;
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> polled{0};
  std::thread poller([&] {
    ibv_wc wc;
    while (!stop) {
      if (ibv_poll_cq(cq_, 1, &wc) != 1) continue;
      if (wc.qp_num == busy->qp_num) {
        EXPECT_EQ(wc.wr_id, polled++);
      }
    }
  });
  uint32_t posted = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    while (ring->producer - ring->header().consumer.load() > 60) std::this_thread::yield();
    ibv_qp* passing = make_qp();
    to_rts(passing);
    ASSERT_EQ(post_send(passing, 0xBAD), 0);
    ring->push(passing->qp_num, 0, abi::kCqeSend);
    while (post_send(busy, posted) != 0) std::this_thread::yield();
    ring->push(busy->qp_num, posted++, abi::kCqeSend);
    ASSERT_EQ(destroy(passing), 0);
  }
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  while (polled < posted && steady_clock::now() < deadline) std::this_thread::yield();
  stop = true;
  poller.join();
  EXPECT_EQ(polled, posted);
}

TEST_F(ThreadTest, PostersShareAQueuePair) {
  make_cq(256);
  ibv_qp* qp = make_qp({.send_wr = 256});
  to_rts(qp);
  const auto post_many = [&](uint64_t base) {
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(post_send(qp, base + i), 0);
  };
  std::thread other(post_many, 1000);
  post_many(0);
  other.join();
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 200U);
  for (uint32_t i = 0; i < 200; ++i) fake(cq_)->push(qp->qp_num, i, abi::kCqeSend);
  uint64_t next[2] = {0, 1000};
  for (const ibv_wc& wc : poll(cq_, 200)) EXPECT_EQ(wc.wr_id, next[wc.wr_id / 1000]++);
}

}  // namespace
}  // namespace verbena::test
