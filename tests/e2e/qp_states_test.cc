// Queue pair states as a program sees them: attribute masks, what may be posted when, flushing,
// reset, draining, limits and the order in which objects may be destroyed. Tables of section 4.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuiet{20};

constexpr int kInitMask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

class QpStatesTest : public testing::Test {
 protected:
  // Valid values for every attribute of the RC transitions.
  ibv_qp_attr attributes(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qp_access_flags = kAccessAll;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qpn();
    attr.rq_psn = peer.address().psn;
    attr.sq_psn = qp.address().psn;
    attr.max_dest_rd_atomic = 4;
    attr.max_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = rnic_b.gid();
    attr.ah_attr.grh.hop_limit = 64;
    return attr;
  }

  int modify(const ibv_qp_attr& attr, int mask) {
    ibv_qp_attr copy = attr;
    return ibv_modify_qp(qp.qp(), &copy, mask);
  }
  int modify_to(ibv_qp_state state, int mask) {
    return modify(attributes(state), mask | IBV_QP_STATE);
  }

  // Each attribute of `required` is needed, and none of `forbidden` is allowed.
  void expect_mask_is_checked(ibv_qp_state from, ibv_qp_state to, int required, int forbidden) {
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((required & bit) != 0) {
        EXPECT_EQ(modify_to(to, required & ~bit), EINVAL) << "without bit " << bit;
      }
      if ((forbidden & bit) != 0) {
        EXPECT_EQ(modify_to(to, required | bit), EINVAL) << "with bit " << bit;
      }
      EXPECT_EQ(qp.state(), from);
    }
    EXPECT_EQ(modify_to(to, required), 0);
    EXPECT_EQ(qp.state(), to);
  }

  Rnic rnic_a{device_name(0)};
  Rnic rnic_b{device_name(1)};
  Endpoint qp{rnic_a};
  Endpoint peer{rnic_b};
};

TEST_F(QpStatesTest, RequiredAndForbiddenAttributes) {
  expect_mask_is_checked(IBV_QPS_RESET, IBV_QPS_INIT, kInitMask,
                         kRtsMask | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_DEST_QPN);
  expect_mask_is_checked(IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, kRtsMask | IBV_QP_QKEY);
  expect_mask_is_checked(IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask,
                         IBV_QP_QKEY | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
}

TEST_F(QpStatesTest, TransitionsThatDoNotExist) {
  EXPECT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), EINVAL);
  EXPECT_EQ(modify_to(IBV_QPS_RTS, kRtsMask), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_RESET);
  ASSERT_EQ(modify_to(IBV_QPS_INIT, kInitMask), 0);
  EXPECT_EQ(modify_to(IBV_QPS_RTS, kRtsMask), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_INIT);
  ASSERT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), 0);
  EXPECT_EQ(modify_to(IBV_QPS_INIT, kInitMask), EINVAL);
  ASSERT_EQ(modify_to(IBV_QPS_RTS, kRtsMask), 0);
  EXPECT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), EINVAL);
  EXPECT_EQ(modify_to(IBV_QPS_INIT, kInitMask), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_RTS);
  ASSERT_EQ(modify_to(IBV_QPS_ERR, 0), 0);
  EXPECT_EQ(modify_to(IBV_QPS_RTS, kRtsMask), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  ASSERT_EQ(modify_to(IBV_QPS_RESET, 0), 0);
  EXPECT_EQ(qp.state(), IBV_QPS_RESET);
}

TEST_F(QpStatesTest, ValuesOutOfRange) {
  ibv_qp_attr attr = attributes(IBV_QPS_INIT);
  attr.port_num = 2;
  EXPECT_EQ(modify(attr, kInitMask | IBV_QP_STATE), EINVAL);
  ASSERT_EQ(modify_to(IBV_QPS_INIT, kInitMask), 0);
  attr = attributes(IBV_QPS_RTR);
  attr.path_mtu = static_cast<ibv_mtu>(6);
  EXPECT_EQ(modify(attr, kRtrMask | IBV_QP_STATE), EINVAL);
  attr = attributes(IBV_QPS_RTR);
  attr.min_rnr_timer = 32;
  EXPECT_EQ(modify(attr, kRtrMask | IBV_QP_STATE), EINVAL);
  attr = attributes(IBV_QPS_RTR);
  attr.ah_attr.is_global = 0;
  EXPECT_EQ(modify(attr, kRtrMask | IBV_QP_STATE), EINVAL) << "RoCE needs a GID";
  ASSERT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), 0);
  attr = attributes(IBV_QPS_RTS);
  attr.timeout = 32;
  EXPECT_EQ(modify(attr, kRtsMask | IBV_QP_STATE), EINVAL);
  attr = attributes(IBV_QPS_RTS);
  attr.retry_cnt = 8;
  EXPECT_EQ(modify(attr, kRtsMask | IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_RTR);
}

TEST_F(QpStatesTest, QueryReturnsWhatWasSet) {
  ASSERT_EQ(modify_to(IBV_QPS_INIT, kInitMask), 0);
  ASSERT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), 0);
  ASSERT_EQ(modify_to(IBV_QPS_RTS, kRtsMask), 0);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp.qp(), &attr, (1 << 21) - 1, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.dest_qp_num, peer.qpn());
  EXPECT_EQ(attr.qp_access_flags, static_cast<unsigned>(kAccessAll));
  EXPECT_EQ(attr.rq_psn, peer.address().psn);
  EXPECT_EQ(attr.sq_psn, qp.address().psn);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.min_rnr_timer, 12);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.retry_cnt, 7);
  EXPECT_EQ(attr.rnr_retry, 7);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(std::memcmp(&attr.ah_attr.grh.dgid, &rnic_b.gid(), 16), 0);
  EXPECT_GE(attr.cap.max_send_wr, 64u);
  EXPECT_GE(attr.cap.max_recv_sge, 16u);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, qp.send_cq());
  EXPECT_EQ(init.recv_cq, qp.recv_cq());
  EXPECT_GE(init.cap.max_send_wr, 64u);
}

TEST_F(QpStatesTest, WhatMayBePostedWhen) {
  Buffer buffer(qp.pd(), 100);
  const ibv_sge sge = buffer.sge();
  const SendRequest send{1, IBV_WR_SEND, IBV_SEND_SIGNALED, {sge}};
  const auto post_send_result = [&] { return try_post_send(qp, std::span(&send, 1)); };
  const auto post_recv_result = [&] { return try_post_recv(qp, 2, std::span(&sge, 1)); };
  EXPECT_NE(post_send_result(), 0) << "in RESET";
  EXPECT_NE(post_recv_result(), 0) << "in RESET";
  ASSERT_EQ(modify_to(IBV_QPS_INIT, kInitMask), 0);
  EXPECT_NE(post_send_result(), 0) << "in INIT";
  EXPECT_EQ(post_recv_result(), 0) << "in INIT";
  ASSERT_EQ(modify_to(IBV_QPS_RTR, kRtrMask), 0);
  EXPECT_NE(post_send_result(), 0) << "in RTR";
  EXPECT_EQ(post_recv_result(), 0) << "in RTR";
  expect_no_completion(qp.send_cq(), kQuiet);
  expect_no_completion(qp.recv_cq(), kQuiet);
}

TEST_F(QpStatesTest, ErrorStateFlushesWhatIsThereAndWhatComes) {
  connect(qp, peer);
  Buffer buffer(qp.pd(), 100);
  const ibv_sge sge = buffer.sge();
  for (uint64_t i = 0; i < 5; ++i) post_recv(qp, i, std::span(&sge, 1));
  qp.to_state(IBV_QPS_ERR);
  const SendRequest send{100, IBV_WR_SEND, 0, {sge}};
  for (uint64_t i = 5; i < 10; ++i) {
    post_recv(qp, i, std::span(&sge, 1));
    post_send(qp, send);
  }
  for (uint64_t i = 0; i < 10; ++i) {
    const ibv_wc wc = wait_completion(qp.recv_cq());
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.qp_num, qp.qpn());
  }
  for (const ibv_wc& wc : wait_completions(qp.send_cq(), 5)) {
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, 100u);
  }
  expect_no_completion(qp.recv_cq(), kQuiet);
  expect_no_completion(qp.send_cq(), kQuiet);
}

// RESET discards work requests without completions, and the completions not yet polled (QP-ERR-5).
TEST_F(QpStatesTest, ResetDiscardsEverything) {
  connect(qp, peer);
  Buffer buffer(qp.pd(), 100);
  const ibv_sge sge = buffer.sge();
  for (uint64_t i = 0; i < 10; ++i) post_recv(qp, i, std::span(&sge, 1));
  Buffer far(peer.pd(), 100);
  for (int i = 0; i < 3; ++i) post_send(peer, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {far.sge()}});
  wait_completions(peer.send_cq(), 3);
  qp.to_state(IBV_QPS_RESET);
  expect_no_completion(qp.recv_cq(), kQuiet);
  peer.to_state(IBV_QPS_RESET);
  connect(qp, peer);
  Random random(41);
  for (const Verb verb : kAllVerbs) {
    EXPECT_EQ(run_transfer(peer, qp, {verb, 3000, 2, 2}, random), "");
  }
}

TEST_F(QpStatesTest, DestroyedQueuePairLeavesNoCompletions) {
  const auto shared_cq = make_cq(rnic_b.context(), 64);
  QpOptions options;
  options.recv_cq = shared_cq.get();
  auto doomed = std::make_unique<Endpoint>(rnic_b, options);
  Endpoint survivor(rnic_b, options);
  Endpoint second(rnic_a);
  connect(qp, *doomed);
  connect(second, survivor);
  for (uint64_t i = 0; i < 4; ++i) {
    post_recv(*doomed, 100 + i, {});
    post_recv(survivor, 200 + i, {});
  }
  for (int i = 0; i < 3; ++i) {
    post_send(qp, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    wait_success(qp.send_cq(), "send to the doomed queue pair");
    post_send(second, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    wait_success(second.send_cq(), "send to the surviving queue pair");
  }
  doomed.reset();
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wait_success(shared_cq.get(), "receive").wr_id, 200 + i);
  }
  expect_no_completion(shared_cq.get(), kQuiet);
}

TEST_F(QpStatesTest, DrainingStopsAndResumes) {
  connect(qp, peer);
  Buffer source(qp.pd(), 500'000);
  Buffer target(peer.pd(), 500'000);
  fill_pattern(source.bytes(), 1);
  const SendRequest write{1,           IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {source.sge()},
                          target.va(), target.rkey()};
  post_send(qp, write);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  const ibv_async_event event = wait_async_event(rnic_a.context());
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, qp.qp());
  // The first may or may not have been started before the state changed.
  ibv_wc wc{};
  const int before = ibv_poll_cq(qp.send_cq(), 1, &wc);
  post_send(qp, write);
  expect_no_completion(qp.send_cq(), milliseconds(50));
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(modify(attr, IBV_QP_STATE), 0);
  for (int i = before; i < 2; ++i) wait_success(qp.send_cq(), "WRITE after draining");
  EXPECT_EQ(first_difference(target.bytes(), 1), target.bytes().size());
}

// The first packet that arrives in RTR says that the connection is there (RC-RSP-44).
TEST_F(QpStatesTest, MessageInRtrRaisesCommunicationEstablished) {
  qp.to_init();
  peer.to_init();
  qp.to_rtr(peer.address());
  peer.to_rtr(qp.address());
  qp.to_rts();
  post_recv(peer, 1, {});
  post_send(qp, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
  wait_success(qp.send_cq(), "send to a queue pair in RTR");
  wait_success(peer.recv_cq(), "receive in RTR");
  const ibv_async_event event = wait_async_event(rnic_b.context());
  EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, peer.qp());
  EXPECT_TRUE(drain_async_events(rnic_b.context()).empty());
}

// ---- Limits ----

TEST_F(QpStatesTest, TooManyPiecesAreRefused) {
  QpOptions options;
  options.send_sge = options.recv_sge = 2;
  Endpoint small(rnic_a, options);
  Endpoint other(rnic_b);
  connect(small, other);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(small.qp(), &attr, IBV_QP_CAP, &init), 0);
  Buffer buffer(small.pd(), 100);
  const std::vector<ibv_sge> too_many_send(init.cap.max_send_sge + 1, buffer.sge(0, 1));
  const std::vector<ibv_sge> too_many_recv(init.cap.max_recv_sge + 1, buffer.sge(0, 1));
  const SendRequest send{1, IBV_WR_SEND, IBV_SEND_SIGNALED, too_many_send};
  EXPECT_NE(try_post_send(small, std::span(&send, 1)), 0);
  EXPECT_NE(try_post_recv(small, 1, too_many_recv), 0);
  EXPECT_EQ(small.state(), IBV_QPS_RTS);
}

TEST_F(QpStatesTest, FullQueuesAreReported) {
  QpOptions options;
  options.send_wr = options.recv_wr = 4;
  Endpoint small(rnic_a, options);
  Endpoint other(rnic_b);
  connect(small, other);
  Buffer buffer(small.pd(), 64);
  const ibv_sge sge = buffer.sge();
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(small.qp(), &attr, IBV_QP_CAP, &init), 0);
  const size_t send_limit = init.cap.max_send_wr;
  size_t received = 0;
  while (received <= init.cap.max_recv_wr && try_post_recv(small, 1, std::span(&sge, 1)) == 0) {
    ++received;
  }
  EXPECT_EQ(received, init.cap.max_recv_wr);
  // Nobody has posted a receive, so that none of these can complete.
  std::vector<SendRequest> chain(send_limit + 2, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {sge}});
  for (size_t i = 0; i < chain.size(); ++i) chain[i].wr_id = i;
  size_t bad = 0;
  EXPECT_EQ(try_post_send(small, chain, &bad), ENOMEM);
  EXPECT_EQ(bad, send_limit) << "those before the first that does not fit are posted";
  for (size_t i = 0; i < send_limit; ++i) post_recv(other, i, {});
  // The receives have no room: the first message breaks the connection, and all complete.
  EXPECT_EQ(wait_completion(small.send_cq()).status, IBV_WC_REM_INV_REQ_ERR);
  wait_completions(small.send_cq(), send_limit - 1);
  expect_no_completion(small.send_cq(), kQuiet);
  drain_async_events(rnic_b.context());
}

TEST_F(QpStatesTest, CreationBeyondTheLimitsIsRefused) {
  const ibv_device_attr& limits = rnic_a.attributes();
  const auto refused = [&](auto change) {
    ibv_qp_init_attr attr{};
    attr.send_cq = qp.send_cq();
    attr.recv_cq = qp.recv_cq();
    attr.cap = {4, 4, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    change(attr);
    errno = 0;
    ibv_qp* made = ibv_create_qp(qp.pd(), &attr);
    const int error = errno;
    if (made != nullptr) ibv_destroy_qp(made);
    return made == nullptr && error != 0;
  };
  EXPECT_FALSE(refused([](ibv_qp_init_attr&) {}));
  const auto max_wr = static_cast<uint32_t>(limits.max_qp_wr);
  const auto max_sge = static_cast<uint32_t>(limits.max_sge);
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& attr) { attr.cap.max_send_wr = max_wr + 1; }));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& attr) { attr.cap.max_recv_wr = max_wr + 1; }));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& attr) { attr.cap.max_send_sge = max_sge + 1; }));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& attr) { attr.cap.max_inline_data = 1 << 20; }));
  errno = 0;
  EXPECT_EQ(ibv_create_cq(rnic_a.context(), limits.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// ---- Destruction ----

TEST_F(QpStatesTest, ObjectsInUseCannotBeDestroyed) {
  EXPECT_EQ(ibv_destroy_cq(qp.send_cq()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(qp.recv_cq()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(qp.pd()), EBUSY);
  const auto channel = make_channel(rnic_a.context());
  const auto cq = make_cq(rnic_a.context(), 4, channel.get());
  EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
  connect(qp, peer);
  Random random(42);
  EXPECT_EQ(run_transfer(qp, peer, {Verb::kSend, 100}, random), "") << "still usable";
}

TEST_F(QpStatesTest, RegionsWithoutMemoryAreRefused) {
  errno = 0;
  void* nowhere = reinterpret_cast<void*>(uint64_t{0x1000});
  EXPECT_EQ((ibv_reg_mr)(qp.pd(), nowhere, 4096, kAccessAll), nullptr);
  EXPECT_NE(errno, 0);
  static const char constant[4096] = "read-only memory";
  auto* read_only = const_cast<char*>(constant);
  EXPECT_EQ((ibv_reg_mr)(qp.pd(), read_only, sizeof(constant), IBV_ACCESS_LOCAL_WRITE), nullptr);
  const Owned<ibv_mr> readable((ibv_reg_mr)(qp.pd(), read_only, sizeof(constant), 0));
  EXPECT_NE(readable.get(), nullptr) << "memory that is only read may be read-only";
  std::vector<uint8_t> bytes(100);
  EXPECT_EQ((ibv_reg_mr)(qp.pd(), bytes.data(), bytes.size(), IBV_ACCESS_REMOTE_WRITE), nullptr)
      << "remote write needs local write";
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbena::e2e
