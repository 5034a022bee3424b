// What goes wrong on an RC queue pair gives the right completion status at the requester, the right
// receive completion and async event at the responder, and the right states; the rest is flushed in
// order, and other queue pairs do not notice. Rules: RC-RSP-12..26, RC-REQ-30..41, QP-ERR-1..8.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <optional>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kBytes = 5000;
constexpr milliseconds kQuiet{30};

// wr_ids of the work requests of a test.
enum : uint64_t { kFailing = 1, kFollower = 2, kRequesterRecv = 11, kResponderRecv = 21 };

// A pair to be broken, with memory on both sides, and a second pair between the same devices that
// must go on working.
class ErrorsTest : public testing::Test {
 protected:
  explicit ErrorsTest(const PathOptions& path = {})
      : pair(QpOptions{}, path),
        bystander_a_(pair.rnic_a),
        bystander_b_(pair.rnic_b),
        here(pair.a.pd(), kBytes, 1),
        there(pair.b.pd(), kBytes, 3) {
    connect(bystander_a_, bystander_b_);
    fill_pattern(here.bytes(), 1);
    fill_pattern(there.bytes(), 2);
  }

  void TearDown() override {
    Random random(31);
    for (const Verb verb : kAllVerbs) {
      EXPECT_EQ(run_transfer(bystander_a_, bystander_b_, {verb, 9000, 2, 2}, random), "")
          << "a bystander was hit";
    }
    EXPECT_EQ(drain_async_events(pair.rnic_a.context()).size(), 0u) << "at the requester";
    EXPECT_TRUE(here.guards_intact() && there.guards_intact());
  }

  SendRequest request(ibv_wr_opcode opcode, uint64_t remote_va, uint32_t rkey) {
    return {kFailing, opcode, IBV_SEND_SIGNALED, {here.sge()}, remote_va, rkey};
  }

  // Posts the request with two followers, one of them unsignalled, and two receives; expects that
  // the requester sees `status`, then the followers and its receives flushed in order.
  void expect_requester_fails(const SendRequest& failing, ibv_wc_status status) {
    post_receives(pair.a, kRequesterRecv);
    const SendRequest requests[] = {
        failing,
        {kFollower, IBV_WR_SEND, 0, {here.sge()}},
        {kFollower + 1,
         IBV_WR_RDMA_WRITE,
         IBV_SEND_SIGNALED,
         {here.sge()},
         there.va(),
         there.rkey()},
    };
    post_send(pair.a, requests);
    const ibv_wc wc = wait_completion(pair.a.send_cq());
    EXPECT_STREQ(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    EXPECT_EQ(wc.wr_id, kFailing);
    EXPECT_EQ(wc.qp_num, pair.a.qpn());
    expect_flushed(pair.a.send_cq(), {kFollower, kFollower + 1});
    expect_flushed(pair.a.recv_cq(), {kRequesterRecv, kRequesterRecv + 1});
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  }

  // The responder goes to ERR with this event; its receives are flushed.
  void expect_responder_error(ibv_event_type event) {
    const ibv_async_event got = wait_async_event(pair.rnic_b.context());
    EXPECT_STREQ(ibv_event_type_str(got.event_type), ibv_event_type_str(event));
    EXPECT_EQ(got.element.qp, pair.b.qp());
    expect_flushed(pair.b.recv_cq(), {kResponderRecv, kResponderRecv + 1});
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }

  // The responder has not noticed: it still receives nothing, and is in RTS.
  void expect_responder_unharmed() {
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
    EXPECT_EQ(drain_async_events(pair.rnic_b.context()).size(), 0u);
    expect_no_completion(pair.b.recv_cq(), kQuiet);
  }

  void post_receives(Endpoint& endpoint, uint64_t first_wr_id) {
    const ibv_sge sge = &endpoint == &pair.a ? here.sge() : there.sge();
    for (uint64_t i = 0; i < 2; ++i) post_recv(endpoint, first_wr_id + i, std::span(&sge, 1));
  }

  static void expect_flushed(ibv_cq* cq, const std::vector<uint64_t>& wr_ids) {
    for (const uint64_t wr_id : wr_ids) {
      const ibv_wc wc = wait_completion(cq);
      EXPECT_EQ(wc.wr_id, wr_id);
      EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
    }
    expect_no_completion(cq, kQuiet);
  }

  // A remote operation that the responder refuses: no byte of either side changes.
  void expect_refused(ibv_wr_opcode opcode, uint64_t remote_va, uint32_t rkey, ibv_wc_status status,
                      ibv_event_type event) {
    post_receives(pair.b, kResponderRecv);
    expect_requester_fails(request(opcode, remote_va, rkey), status);
    expect_responder_error(event);
    EXPECT_EQ(first_difference(here.bytes(), 1), kBytes);
    EXPECT_EQ(first_difference(there.bytes(), 2), kBytes);
  }

  void expect_access_error(ibv_wr_opcode opcode, uint64_t remote_va, uint32_t rkey) {
    expect_refused(opcode, remote_va, rkey, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }

  Connected pair;

 private:
  Endpoint bystander_a_;
  Endpoint bystander_b_;

 protected:
  Buffer here;
  Buffer there;
};

// ---- Remote keys (RC-RSP-23) ----

TEST_F(ErrorsTest, WriteWithWrongRkey) {
  expect_access_error(IBV_WR_RDMA_WRITE, there.va(), there.rkey() ^ 0x5500);
}

TEST_F(ErrorsTest, WriteWithWrongKeyVariant) {
  expect_access_error(IBV_WR_RDMA_WRITE, there.va(), there.rkey() ^ 0x01);
}

TEST_F(ErrorsTest, ReadWithWrongRkey) {
  expect_access_error(IBV_WR_RDMA_READ, there.va(), there.rkey() ^ 0x5500);
}

TEST_F(ErrorsTest, WriteOneBytePastTheEnd) {
  expect_access_error(IBV_WR_RDMA_WRITE, there.va() + 1, there.rkey());
}

TEST_F(ErrorsTest, WriteOneByteBeforeTheStart) {
  expect_access_error(IBV_WR_RDMA_WRITE, there.va() - 1, there.rkey());
}

TEST_F(ErrorsTest, ReadOneBytePastTheEnd) {
  expect_access_error(IBV_WR_RDMA_READ, there.va() + 1, there.rkey());
}

TEST_F(ErrorsTest, WriteWhoseRangeWrapsAround) {
  expect_access_error(IBV_WR_RDMA_WRITE, ~uint64_t{0} - 10, there.rkey());
}

TEST_F(ErrorsTest, WriteToRegionWithoutRemoteWrite) {
  const auto mr =
      make_mr(pair.b.pd(), there.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  expect_access_error(IBV_WR_RDMA_WRITE, there.va(), mr->rkey);
}

TEST_F(ErrorsTest, ReadOfRegionWithoutRemoteRead) {
  const auto mr =
      make_mr(pair.b.pd(), there.bytes(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect_access_error(IBV_WR_RDMA_READ, there.va(), mr->rkey);
}

TEST_F(ErrorsTest, WriteToRegionOfAnotherPd) {
  const Owned<ibv_pd> other(checked(ibv_alloc_pd(pair.rnic_b.context()), "ibv_alloc_pd"));
  const auto mr = make_mr(other.get(), there.bytes());
  expect_access_error(IBV_WR_RDMA_WRITE, there.va(), mr->rkey);
}

TEST_F(ErrorsTest, ReadOfRegionOfAnotherPd) {
  const Owned<ibv_pd> other(checked(ibv_alloc_pd(pair.rnic_b.context()), "ibv_alloc_pd"));
  const auto mr = make_mr(other.get(), there.bytes());
  expect_access_error(IBV_WR_RDMA_READ, there.va(), mr->rkey);
}

TEST_F(ErrorsTest, WriteToDeregisteredRegion) {
  auto mr = make_mr(pair.b.pd(), there.bytes());
  const uint32_t stale = mr->rkey;
  mr.reset();
  const auto successor = make_mr(pair.b.pd(), there.bytes());
  EXPECT_NE(successor->rkey, stale);
  expect_access_error(IBV_WR_RDMA_WRITE, there.va(), stale);
}

// The receive is looked for before the key is checked (section 3.1), so it may be held by then.
TEST_F(ErrorsTest, WriteWithImmediateAndWrongRkey) {
  post_receives(pair.b, kResponderRecv);
  SendRequest failing = request(IBV_WR_RDMA_WRITE_WITH_IMM, there.va(), there.rkey() ^ 0x5500);
  failing.sges = {here.sge(0, 100)};
  expect_requester_fails(failing, IBV_WC_REM_ACCESS_ERR);
  const ibv_async_event event = wait_async_event(pair.rnic_b.context());
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  const ibv_wc first = wait_completion(pair.b.recv_cq());
  EXPECT_EQ(first.wr_id, kResponderRecv);
  EXPECT_TRUE(first.status == IBV_WC_WR_FLUSH_ERR || first.status == IBV_WC_REM_ACCESS_ERR)
      << ibv_wc_status_str(first.status);
  expect_flushed(pair.b.recv_cq(), {kResponderRecv + 1});
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST_F(ErrorsTest, EmptyWriteNeedsNoValidKey) {
  SendRequest empty = request(IBV_WR_RDMA_WRITE, 0x123, 0xBAD);
  empty.sges.clear();
  post_send(pair.a, empty);
  wait_success(pair.a.send_cq(), "WRITE of no bytes");
  expect_responder_unharmed();
}

// ---- Permissions of the queue pair (RC-RSP-12, RC-RSP-13) ----

class QpAccessTest : public ErrorsTest {
 protected:
  QpAccessTest() : ErrorsTest(path()) {}

  static PathOptions path() {
    PathOptions path;
    path.access = IBV_ACCESS_LOCAL_WRITE;
    return path;
  }
};

TEST_F(QpAccessTest, WriteToQueuePairWithoutRemoteWrite) {
  expect_refused(IBV_WR_RDMA_WRITE, there.va(), there.rkey(), IBV_WC_REM_INV_REQ_ERR,
                 IBV_EVENT_QP_REQ_ERR);
}

TEST_F(QpAccessTest, ReadFromQueuePairWithoutRemoteRead) {
  expect_refused(IBV_WR_RDMA_READ, there.va(), there.rkey(), IBV_WC_REM_INV_REQ_ERR,
                 IBV_EVENT_QP_REQ_ERR);
}

// ---- Messages and receives that do not fit (RC-RSP-22, RC-RSP-26) ----

// Sends to a receive that cannot take it.
class ReceiveErrorsTest : public ErrorsTest {
 protected:
  void expect_receive_fails(const ibv_sge& receive, size_t message, ibv_wc_status at_requester,
                            ibv_wc_status at_responder) {
    post_recv(pair.b, kResponderRecv, std::span(&receive, 1));
    post_recv(pair.b, kResponderRecv + 1, std::span(&receive, 1));
    SendRequest failing = request(IBV_WR_SEND, 0, 0);
    failing.sges = {here.sge(0, message)};
    expect_requester_fails(failing, at_requester);
    const ibv_wc wc = wait_completion(pair.b.recv_cq());
    EXPECT_EQ(wc.wr_id, kResponderRecv);
    EXPECT_STREQ(ibv_wc_status_str(wc.status), ibv_wc_status_str(at_responder));
    expect_flushed(pair.b.recv_cq(), {kResponderRecv + 1});
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
    drain_async_events(pair.rnic_b.context());  // the completion says it; an event may say it too
  }
};

TEST_F(ReceiveErrorsTest, OnePacketTooLong) {
  expect_receive_fails(there.sge(0, 99), 100, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
  const std::vector<uint8_t> after(there.bytes().begin() + 99, there.bytes().end());
  fill_pattern(there.bytes(), 2);
  EXPECT_TRUE(std::equal(after.begin(), after.end(), there.bytes().begin() + 99))
      << "bytes after the receive's end were changed";
}

TEST_F(ReceiveErrorsTest, SeveralPacketsTooLong) {
  expect_receive_fails(there.sge(0, 2500), 5000, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
}

TEST_F(ReceiveErrorsTest, ReceiveWithBadLkey) {
  ibv_sge receive = there.sge();
  receive.lkey ^= 0x5500;
  expect_receive_fails(receive, 100, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
}

TEST_F(ReceiveErrorsTest, ReceiveWithoutLocalWrite) {
  const auto mr = make_mr(pair.b.pd(), there.bytes(), 0);
  const ibv_sge receive{there.va(), kBytes, mr->lkey};
  expect_receive_fails(receive, 100, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(first_difference(there.bytes(), 2), kBytes);
}

TEST_F(ReceiveErrorsTest, ReceiveBeyondItsRegion) {
  ibv_sge receive = there.sge();
  receive.addr += 4990;
  expect_receive_fails(receive, 100, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
}

// ---- The requester's own memory (status table of section 4.4) ----

TEST_F(ErrorsTest, SendWithBadLkey) {
  SendRequest failing = request(IBV_WR_SEND, 0, 0);
  failing.sges[0].lkey ^= 0x5500;
  expect_requester_fails(failing, IBV_WC_LOC_PROT_ERR);
  expect_responder_unharmed();
}

TEST_F(ErrorsTest, WriteBeyondTheLocalRegion) {
  SendRequest failing = request(IBV_WR_RDMA_WRITE, there.va(), there.rkey());
  failing.sges = {here.sge(1, kBytes)};
  expect_requester_fails(failing, IBV_WC_LOC_PROT_ERR);
}

TEST_F(ErrorsTest, SendFromRegionOfAnotherPd) {
  const Owned<ibv_pd> other(checked(ibv_alloc_pd(pair.rnic_a.context()), "ibv_alloc_pd"));
  const auto mr = make_mr(other.get(), here.bytes());
  SendRequest failing = request(IBV_WR_SEND, 0, 0);
  failing.sges[0].lkey = mr->lkey;
  expect_requester_fails(failing, IBV_WC_LOC_PROT_ERR);
  expect_responder_unharmed();
}

TEST_F(ErrorsTest, ReadIntoRegionWithoutLocalWrite) {
  const auto mr = make_mr(pair.a.pd(), here.bytes(), 0);
  SendRequest failing = request(IBV_WR_RDMA_READ, there.va(), there.rkey());
  failing.sges[0].lkey = mr->lkey;
  expect_requester_fails(failing, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(first_difference(here.bytes(), 1), kBytes);
}

// Memory that its owner has unmapped while it was registered: an error, never a dead daemon.
class UnmappedTest : public ErrorsTest {
 protected:
  static constexpr size_t kPages = 8 * 4096;

  struct Gone {
    Owned<ibv_mr> mr;
    uint64_t va;
  };
  static Gone register_and_unmap(ibv_pd* pd) {
    void* mapped = mmap(nullptr, kPages, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    auto mr = make_mr(pd, {static_cast<uint8_t*>(mapped), kPages});
    munmap(mapped, kPages);
    return {std::move(mr), reinterpret_cast<uint64_t>(mapped)};
  }
};

TEST_F(UnmappedTest, SendFromUnmappedMemory) {
  const Gone gone = register_and_unmap(pair.a.pd());
  SendRequest failing = request(IBV_WR_SEND, 0, 0);
  failing.sges = {{gone.va, 1000, gone.mr->lkey}};
  expect_requester_fails(failing, IBV_WC_LOC_PROT_ERR);
  expect_responder_unharmed();
}

TEST_F(UnmappedTest, WriteToUnmappedMemory) {
  const Gone gone = register_and_unmap(pair.b.pd());
  post_send(pair.a, request(IBV_WR_RDMA_WRITE, gone.va, gone.mr->rkey));
  const ibv_wc wc = wait_completion(pair.a.send_cq());
  EXPECT_TRUE(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR)
      << ibv_wc_status_str(wc.status);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  drain_async_events(pair.rnic_b.context());
}

TEST_F(UnmappedTest, ReadOfUnmappedMemory) {
  const Gone gone = register_and_unmap(pair.b.pd());
  post_send(pair.a, request(IBV_WR_RDMA_READ, gone.va, gone.mr->rkey));
  const ibv_wc wc = wait_completion(pair.a.send_cq());
  EXPECT_TRUE(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR)
      << ibv_wc_status_str(wc.status);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  drain_async_events(pair.rnic_b.context());
}

// ---- No receive posted (RC-RSP-24, RC-REQ-40, RC-REQ-41) ----

class RnrOnceTest : public ErrorsTest {
 protected:
  RnrOnceTest() : ErrorsTest({.rnr_retry = 0}) {}
};

TEST_F(RnrOnceTest, FailsAtOnceWithoutRetries) {
  const auto start = Clock::now();
  expect_requester_fails(request(IBV_WR_SEND, 0, 0), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_LT(Clock::now() - start, milliseconds(500));
  expect_responder_unharmed();
}

class RnrTwiceTest : public ErrorsTest {
 protected:
  RnrTwiceTest() : ErrorsTest({.rnr_retry = 2, .min_rnr_timer = 22}) {}  // 20.48 ms
};

TEST_F(RnrTwiceTest, FailsAfterTwoWaits) {
  const auto start = Clock::now();
  expect_requester_fails(request(IBV_WR_SEND, 0, 0), IBV_WC_RNR_RETRY_EXC_ERR);
  const auto took = duration_cast<milliseconds>(Clock::now() - start);
  EXPECT_GE(took.count(), 40);
  EXPECT_LT(took.count(), 1000);
  expect_responder_unharmed();
}

TEST_F(ErrorsTest, LateReceiveIsInTime) {
  for (const Verb verb : {Verb::kSend, Verb::kSendImm, Verb::kWriteImm}) {
    Random random(32);
    Transfer transfer(pair.a, pair.b, {verb, 6000, 2, 3}, 7, random);
    post_send(pair.a, transfer.request());
    expect_no_completion(pair.a.send_cq(), milliseconds(50));
    transfer.post_receive(pair.b);
    EXPECT_EQ(transfer.check_receive(wait_completion(pair.b.recv_cq()), pair.b.qpn()), "");
    EXPECT_EQ(transfer.check_send(wait_completion(pair.a.send_cq()), pair.a.qpn()), "");
    EXPECT_EQ(transfer.check_data(), "");
  }
  expect_responder_unharmed();
}

// ---- A dead peer (RC-REQ-30..33) ----

class DeadPeerTest : public ErrorsTest {
 protected:
  DeadPeerTest() : ErrorsTest({.timeout = 13, .retry_cnt = 2}) {}  // 33.55 ms

  // (retry_cnt + 1) intervals; each may be detected up to four times late (RC-REQ-31).
  void expect_timeout() {
    const auto start = Clock::now();
    expect_requester_fails(request(IBV_WR_RDMA_WRITE, there.va(), there.rkey()),
                           IBV_WC_RETRY_EXC_ERR);
    const auto took = duration_cast<milliseconds>(Clock::now() - start);
    EXPECT_GE(took.count(), 100);
    EXPECT_LE(took.count(), 4 * 101 + 4 * kQuiet.count());
  }
};

TEST_F(DeadPeerTest, DestroyedQueuePair) {
  pair.b.destroy_qp();
  expect_timeout();
}

TEST_F(DeadPeerTest, QueuePairInError) {
  pair.b.to_state(IBV_QPS_ERR);
  expect_timeout();
}

TEST_F(DeadPeerTest, QueuePairReset) {
  pair.b.to_state(IBV_QPS_RESET);
  expect_timeout();
}

TEST_F(ErrorsTest, PeerThatWasNeverThere) {
  Endpoint lonely(pair.rnic_a);
  const PathOptions path{.timeout = 12, .retry_cnt = 1};
  Address nobody = pair.b.address();
  nobody.qpn = 0xABCDEF;
  lonely.to_init();
  lonely.to_rtr(nobody, path);
  lonely.to_rts(path);
  post_send(lonely, {kFailing, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
  const ibv_wc wc = wait_completion(lonely.send_cq());
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
  EXPECT_EQ(lonely.state(), IBV_QPS_ERR);
}

// ---- Afterwards ----

TEST_F(ErrorsTest, BrokenPairIsResetAndUsedAgain) {
  post_receives(pair.b, kResponderRecv);
  post_send(pair.a, request(IBV_WR_RDMA_WRITE, there.va(), 0xBAD));
  EXPECT_EQ(wait_completion(pair.a.send_cq()).status, IBV_WC_REM_ACCESS_ERR);
  expect_responder_error(IBV_EVENT_QP_ACCESS_ERR);
  for (int round = 0; round < 3; ++round) {
    pair.a.to_state(IBV_QPS_RESET);
    pair.b.to_state(IBV_QPS_RESET);
    EXPECT_EQ(pair.a.state(), IBV_QPS_RESET);
    connect(pair.a, pair.b);
    Random random(33);
    for (const Verb verb : kAllVerbs) {
      EXPECT_EQ(run_transfer(pair.a, pair.b, {verb, 5000, 2, 2}, random), "");
      EXPECT_EQ(run_transfer(pair.b, pair.a, {verb, 5000, 2, 2}, random), "");
    }
  }
}

}  // namespace
}  // namespace verbena::e2e
