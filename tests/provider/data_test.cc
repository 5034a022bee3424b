// Posting and polling: what lies in the rings, what comes out of them.

#include <cstring>

#include "provider/qp_map.h"
#include "tests/provider/provider_fixture.h"

namespace verbena::test {
namespace {

using PostTest = ProviderTest;
using WrTest = ProviderTest;
using PollTest = ProviderTest;
using ArmTest = ProviderTest;

abi::Sge sge_behind(const uint8_t* head, size_t head_bytes, size_t i) {
  abi::Sge sge;
  std::memcpy(&sge, head + head_bytes + i * sizeof sge, sizeof sge);
  return sge;
}

TEST_F(PostTest, WriteWithImmediateLiesInTheRing) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  ibv_sge list[2] = {{0x1000, 10, 7}, {0x2000, 20, 8}};
  ibv_send_wr wr{}, *bad;
  wr.sg_list = list;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED;
  wr.imm_data = 0x11223344;
  wr.wr.rdma.remote_addr = 0xABCDEF00;
  wr.wr.rdma.rkey = 0x55;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);

  const auto ring = fake(qp);
  EXPECT_EQ(ring->header().sq_tail.load(), 1U);
  const abi::SendWqe wqe = ring->send_wqe(0);
  EXPECT_EQ(wqe.opcode, static_cast<uint8_t>(abi::WrOpcode::kWriteImm));
  EXPECT_EQ(wqe.flags, abi::kWrSignaled | abi::kWrFence | abi::kWrSolicited);
  EXPECT_EQ(wqe.num_sge, 2);
  EXPECT_EQ(wqe.inline_length, 0U);
  EXPECT_EQ(wqe.imm_wire, 0x11223344U);
  EXPECT_EQ(wqe.remote_va, 0xABCDEF00U);
  EXPECT_EQ(wqe.rkey, 0x55U);
  for (uint32_t reserved : wqe.reserved) EXPECT_EQ(reserved, 0U);
  const abi::Sge second = sge_behind(ring->send_entry(0), sizeof wqe, 1);
  EXPECT_EQ(second.va, 0x2000U);
  EXPECT_EQ(second.length, 20U);
  EXPECT_EQ(second.lkey, 8U);
}

TEST_F(PostTest, InlineDataIsGatheredAtOnce) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  char first[] = "unmod", second[] = "ified";
  ibv_sge list[2] = {{reinterpret_cast<uint64_t>(first), 5, 0},
                     {reinterpret_cast<uint64_t>(second), 6, 0}};
  ibv_send_wr wr{}, *bad;
  wr.sg_list = list;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  std::memset(first, 'x', sizeof first);
  const auto ring = fake(qp);
  const abi::SendWqe wqe = ring->send_wqe(0);
  EXPECT_EQ(wqe.inline_length, 11U);
  EXPECT_EQ(wqe.num_sge, 0);
  EXPECT_EQ(wqe.flags, abi::kWrInline);
  EXPECT_STREQ(reinterpret_cast<const char*>(ring->send_entry(0) + sizeof wqe), "unmodified");
}

TEST_F(PostTest, WhatBreaksALimitIsRefusedAndNamed) {
  ibv_qp* qp = make_qp({.send_wr = 4, .recv_wr = 4, .sge = 2, .inline_data = 32});
  to_rts(qp);
  ibv_sge list[3] = {sge_, sge_, sge_};
  ibv_send_wr good{}, wr{}, *bad = nullptr;
  good.opcode = IBV_WR_SEND;
  good.next = &wr;
  wr.sg_list = list;
  const auto refused = [&](int num_sge, ibv_wr_opcode opcode, unsigned flags, uint32_t length) {
    wr.num_sge = num_sge;
    wr.opcode = opcode;
    wr.send_flags = flags;
    list[0].length = length;
    bad = nullptr;
    return ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr;
  };
  EXPECT_TRUE(refused(3, IBV_WR_SEND, 0, 8)) << "SGEs";
  EXPECT_TRUE(refused(-1, IBV_WR_SEND, 0, 8));
  EXPECT_TRUE(refused(1, IBV_WR_SEND, IBV_SEND_INLINE, 33)) << "inline";
  EXPECT_TRUE(refused(1, IBV_WR_RDMA_READ, IBV_SEND_INLINE, 8));
  EXPECT_TRUE(refused(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)) << "opcode";
  EXPECT_TRUE(refused(1, IBV_WR_DRIVER1, 0, 8));
  EXPECT_TRUE(refused(1, IBV_WR_SEND, 1 << 10, 8)) << "flags";
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 0U);

  // Those before the bad one are posted.
  wr.num_sge = 3;
  EXPECT_EQ(ibv_post_send(qp, &good, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 1U);

  ibv_recv_wr recv{}, *bad_recv = nullptr;
  recv.sg_list = list;
  recv.num_sge = 3;
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
  EXPECT_EQ(bad_recv, &recv);
}

TEST_F(PostTest, StatesDecideWhetherPostingIsAllowed) {
  ibv_qp* qp = make_qp();
  EXPECT_EQ(post_send(qp, 0), EINVAL);
  EXPECT_EQ(post_recv(qp, 0), EINVAL);
  modify_state(qp, IBV_QPS_INIT);
  EXPECT_EQ(post_send(qp, 0), EINVAL);
  EXPECT_EQ(post_recv(qp, 0), 0);
  modify_state(qp, IBV_QPS_RTR);
  EXPECT_EQ(post_send(qp, 0), EINVAL);
  EXPECT_EQ(post_recv(qp, 0), 0);
  modify_state(qp, IBV_QPS_RTS);
  EXPECT_EQ(post_send(qp, 0), 0);
  modify_state(qp, IBV_QPS_ERR);
  EXPECT_EQ(post_send(qp, 0), 0) << "to be flushed";
  EXPECT_EQ(post_recv(qp, 0), 0);
}

TEST_F(PostTest, FullRingsSayNoMemoryUntilSomethingRetires) {
  ibv_qp* qp = make_qp({.send_wr = 3, .recv_wr = 3, .sge = 1, .inline_data = 0});
  to_rts(qp);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(post_send(qp, i, IBV_WR_SEND, 0), 0);
    EXPECT_EQ(post_recv(qp, i), 0);
  }
  EXPECT_EQ(post_send(qp, 3), ENOMEM);
  EXPECT_EQ(post_recv(qp, 3), ENOMEM);
  // One completion retires the unsignalled ones before it.
  fake(cq_)->push(qp->qp_num, 1, abi::kCqeSend);
  fake(cq_)->push(qp->qp_num, 0, abi::kCqeRecv);
  const auto done = poll(cq_, 2);
  EXPECT_EQ(done.at(0).wr_id, 1U);
  EXPECT_EQ(done.at(1).wr_id, 0U);
  EXPECT_EQ(post_send(qp, 4), 0);
  EXPECT_EQ(post_send(qp, 5), 0);
  EXPECT_EQ(post_send(qp, 6), ENOMEM);
  EXPECT_EQ(post_recv(qp, 4), 0);
  EXPECT_EQ(post_recv(qp, 5), ENOMEM);
}

TEST_F(PostTest, SendsRingAndKickOnlyASleeper) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  const uint32_t slot = fake(qp)->layout.doorbell_slot;
  EXPECT_EQ(post_send(qp, 1), 0);
  EXPECT_EQ(daemon_.drain_doorbells(), std::vector{slot});
  EXPECT_EQ(daemon_.kicks(), 0);
  daemon_.worker().sleeping.store(1);
  EXPECT_EQ(post_send(qp, 2), 0);
  EXPECT_EQ(daemon_.drain_doorbells(), std::vector{slot});
  EXPECT_EQ(daemon_.kicks(), 1);
  EXPECT_EQ(post_send(qp, 3, IBV_WR_DRIVER1), EINVAL);
  EXPECT_TRUE(daemon_.drain_doorbells().empty()) << "nothing was posted";
}

TEST_F(PostTest, ReceivesRingOnlyWhileFlushing) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  EXPECT_EQ(post_recv(qp, 1), 0);
  EXPECT_TRUE(daemon_.drain_doorbells().empty());
  const auto ring = fake(qp);
  ring->header().flushing.store(1);
  EXPECT_EQ(post_recv(qp, 2), 0);
  EXPECT_EQ(daemon_.drain_doorbells(), std::vector{ring->layout.doorbell_slot});
  EXPECT_EQ(ring->header().rq_tail.load(), 2U);
  uint32_t num_sge;
  std::memcpy(&num_sge, ring->recv_entry(1), sizeof num_sge);
  EXPECT_EQ(num_sge, 1U);
  EXPECT_EQ(sge_behind(ring->recv_entry(1), sizeof(abi::RecvWqe), 0).lkey, 0x1234U);
}

constexpr uint64_t kAllOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                             IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                             IBV_QP_EX_WITH_RDMA_READ;

TEST_F(WrTest, ABatchIsPostedWhenComplete) {
  ibv_qp* qp = make_qp({}, kAllOps);
  to_rts(qp);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(ex, nullptr);
  const auto ring = fake(qp);

  ibv_wr_start(ex);
  ex->wr_id = 100;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write_imm(ex, 0x77, 0x9000, 0xAABBCCDD);
  ibv_wr_set_sge(ex, 5, 0x4000, 99);
  ex->wr_id = 101;
  ex->wr_flags = 0;
  ibv_wr_send_imm(ex, 0x01020304);
  char text[] = "inline";
  ibv_data_buf parts[2] = {{text, 3}, {text + 3, 4}};
  ibv_wr_set_inline_data_list(ex, 2, parts);
  ibv_wr_rdma_read(ex, 0x78, 0xA000);
  const ibv_sge list[2] = {{0x5000, 1, 1}, {0x6000, 2, 2}};
  ibv_wr_set_sge_list(ex, 2, list);
  ibv_wr_rdma_write(ex, 0x79, 0xB000);
  EXPECT_EQ(ring->header().sq_tail.load(), 0U);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(ring->header().sq_tail.load(), 4U);
  EXPECT_EQ(daemon_.drain_doorbells().size(), 1U);

  const abi::SendWqe first = ring->send_wqe(0);
  EXPECT_EQ(first.opcode, static_cast<uint8_t>(abi::WrOpcode::kWriteImm));
  EXPECT_EQ(first.flags, abi::kWrSignaled);
  EXPECT_EQ(first.rkey, 0x77U);
  EXPECT_EQ(first.remote_va, 0x9000U);
  EXPECT_EQ(first.imm_wire, 0xAABBCCDDU);
  EXPECT_EQ(sge_behind(ring->send_entry(0), sizeof first, 0).length, 99U);
  const abi::SendWqe second = ring->send_wqe(1);
  EXPECT_EQ(second.opcode, static_cast<uint8_t>(abi::WrOpcode::kSendImm));
  EXPECT_EQ(second.flags, abi::kWrInline);
  EXPECT_EQ(second.inline_length, 7U);
  EXPECT_STREQ(reinterpret_cast<const char*>(ring->send_entry(1) + sizeof second), "inline");
  EXPECT_EQ(ring->send_wqe(2).num_sge, 2);
  EXPECT_EQ(ring->send_wqe(3).num_sge, 0) << "no data";

  fake(cq_)->push(qp->qp_num, 1, abi::kCqeSend);
  EXPECT_EQ(poll(cq_, 1).at(0).wr_id, 101U);
}

TEST_F(WrTest, AnErrorPostsNothingOfTheBatch) {
  ibv_qp* qp = make_qp({.send_wr = 2}, IBV_QP_EX_WITH_SEND);
  to_rts(qp);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_rdma_write(ex, 1, 1);
  EXPECT_EQ(ibv_wr_complete(ex), EOPNOTSUPP) << "an operation not asked for at creation";

  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_inline_data(ex, buffer_, 33);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);

  ibv_wr_start(ex);
  for (int i = 0; i < 3; ++i) ibv_wr_send(ex);
  ibv_wr_set_sge(ex, 0, 0, 0);
  EXPECT_EQ(ibv_wr_complete(ex), ENOMEM);

  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_abort(ex);
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 0U);
  EXPECT_TRUE(daemon_.drain_doorbells().empty());
}

TEST_F(WrTest, PlainQueuePairsHaveNoExtendedCalls) {
  EXPECT_EQ(ibv_qp_to_qp_ex(make_qp()), nullptr);
}

TEST_F(PollTest, EveryFieldOfACompletionIsHandedOn) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  post_recv(qp, 0xFEDC);
  const auto ring = fake(cq_);
  abi::Cqe& cqe = ring->entry(0);
  cqe.wqe_index = 0;
  cqe.qpn = qp->qp_num;
  cqe.byte_len = 1234;
  cqe.imm_wire = 0x99887766;
  cqe.src_qpn = 0x33;
  cqe.opcode = static_cast<uint8_t>(abi::WcOpcode::kRecvWriteImm);
  cqe.vendor_err = 3;
  cqe.flags = abi::kWcWithImm;
  cqe.kind = abi::kCqeRecv;
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0) << "not there before its sequence";
  cqe.sequence.store(1);
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 0xFEDCU);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 1234U);
  EXPECT_EQ(wc.imm_data, 0x99887766U);
  EXPECT_EQ(wc.qp_num, qp->qp_num);
  EXPECT_EQ(wc.src_qp, 0x33U);
  EXPECT_EQ(wc.vendor_err, 3U);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ring->header().consumer.load(), 1U);
}

TEST_F(PollTest, RingsWrapManyTimes) {
  make_cq(4);
  ibv_qp* qp = make_qp({.send_wr = 3});
  to_rts(qp);
  const auto ring = fake(cq_);
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(post_send(qp, i), 0) << i;
    ASSERT_EQ(fake(qp)->send_wqe(i).opcode, static_cast<uint8_t>(abi::WrOpcode::kSend));
    ring->push(qp->qp_num, i, abi::kCqeSend);
    ASSERT_EQ(poll(cq_, 1).at(0).wr_id, i);
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 0) << "an old lap's entry is no new one";
  }
  EXPECT_EQ(ring->header().consumer.load(), 1000U);
}

TEST_F(PollTest, EntriesOfADestroyedQueuePairAreDiscarded) {
  ibv_qp* gone = make_qp();
  ibv_qp* stays = make_qp();
  to_rts(gone);
  to_rts(stays);
  post_send(gone, 1);
  post_send(stays, 2);
  const auto ring = fake(cq_);
  const uint32_t gone_qpn = gone->qp_num;
  ring->push(gone_qpn, 0, abi::kCqeSend);
  ring->push(stays->qp_num, 0, abi::kCqeSend);
  ASSERT_EQ(destroy(gone), 0);
  EXPECT_EQ(ring->entry(0).kind, abi::kCqeDead);
  EXPECT_EQ(poll(cq_, 1).at(0).wr_id, 2U);
  EXPECT_EQ(ring->header().consumer.load(), 2U) << "the discarded slot is free again";
}

TEST_F(PollTest, ANumberIsReusedWithoutConfusion) {
  {
    const auto lock = daemon_.state();
    daemon_.reuse_qpns = true;
  }
  for (uint64_t round = 0; round < 20; ++round) {
    ibv_qp* qp = make_qp();
    to_rts(qp);
    ASSERT_EQ(post_send(qp, round), 0);
    ASSERT_EQ(post_send(qp, 999), 0);
    const auto ring = fake(cq_);
    ring->push(qp->qp_num, 0, abi::kCqeSend);
    ASSERT_EQ(poll(cq_, 1).at(0).wr_id, round);
    ring->push(qp->qp_num, 1, abi::kCqeSend);  // never polled
    ASSERT_EQ(destroy(qp), 0);
  }
}

TEST_F(PollTest, ResetRestartsBothSidesAtIndexZero) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_send(qp, i), 0);
  ASSERT_EQ(post_recv(qp, 9), 0);
  const auto ring = fake(cq_);
  ring->push(qp->qp_num, 0, abi::kCqeSend);
  ASSERT_EQ(modify_state(qp, IBV_QPS_RESET), 0);
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 0U);
  EXPECT_EQ(fake(qp)->header().rq_tail.load(), 0U);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0) << "completions of before are gone";
  EXPECT_EQ(post_send(qp, 0), EINVAL);
  to_rts(qp);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post_send(qp, 50 + i), 0) << "all slots are free";
  ring->push(qp->qp_num, 0, abi::kCqeSend);
  EXPECT_EQ(poll(cq_, 1).at(0).wr_id, 50U);
}

TEST_F(PollTest, ResizeKeepsWhatIsNotConsumed) {
  make_cq(4);
  ibv_qp* qp = make_qp({.send_wr = 8});
  to_rts(qp);
  for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(post_send(qp, i), 0);
  for (uint32_t i = 0; i < 4; ++i) fake(cq_)->push(qp->qp_num, i, abi::kCqeSend);
  EXPECT_EQ(poll(cq_, 1).at(0).wr_id, 0U);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  const uint32_t armed = fake(cq_)->header().arm.load();
  ASSERT_EQ(ibv_resize_cq(cq_, 16), 0);
  EXPECT_EQ(cq_->cqe, 16);
  const auto ring = fake(cq_);
  EXPECT_EQ(ring->header().consumer.load(), 1U);
  EXPECT_EQ(ring->header().arm.load(), armed);
  ring->push(qp->qp_num, 4, abi::kCqeSend);
  const auto done = poll(cq_, 4);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(done.at(i).wr_id, i + 1);
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
}

TEST_F(PollTest, ExtendedPollingReadsTheSameEntries) {
  make_pd();
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.wc_flags =
      static_cast<uint64_t>(IBV_WC_STANDARD_FLAGS) | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* ex = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(ex, nullptr);
  cq_ = keep(ibv_cq_ex_to_cq(ex));
  ibv_qp* qp = make_qp();
  to_rts(qp);
  post_send(qp, 70);
  post_send(qp, 71);
  ibv_poll_cq_attr poll_attr{};
  EXPECT_EQ(ibv_start_poll(ex, &poll_attr), ENOENT);
  const auto ring = fake(cq_);
  ring->push(qp->qp_num, 0, abi::kCqeSend);
  ring->push(qp->qp_num, 1, abi::kCqeSend, abi::WcStatus::kRetryExc);
  ASSERT_EQ(ibv_start_poll(ex, &poll_attr), 0);
  EXPECT_EQ(ex->wr_id, 70U);
  EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_SEND);
  EXPECT_EQ(ibv_wc_read_byte_len(ex), 64U);
  EXPECT_EQ(ibv_wc_read_qp_num(ex), qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(ex), 0x77U);
  EXPECT_EQ(ibv_wc_read_completion_ts(ex), 1000U);
  ASSERT_EQ(ibv_next_poll(ex), 0);
  EXPECT_EQ(ex->wr_id, 71U);
  EXPECT_EQ(ex->status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(ibv_next_poll(ex), ENOENT);
  ibv_end_poll(ex);
  EXPECT_EQ(ring->header().consumer.load(), 2U);
  poll_attr.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(ex, &poll_attr), EINVAL);
}

TEST_F(ArmTest, EveryRequestIsANewValueOfTheWord) {
  make_cq();
  const auto ring = fake(cq_);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  const uint32_t first = ring->header().arm.load();
  EXPECT_EQ(first & 3, abi::kArmSolicited);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  const uint32_t second = ring->header().arm.load();
  EXPECT_EQ(second & 3, abi::kArmAny) << "a wider request replaces a narrower one";
  EXPECT_NE(second >> 2, first >> 2);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  EXPECT_EQ(ring->header().arm.load(), second) << "one that waits is not narrowed";
  ring->header().fired.store(second);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  EXPECT_EQ(ring->header().arm.load() & 3, abi::kArmSolicited);
  EXPECT_NE(ring->header().arm.load() >> 2, second >> 2);
}

TEST(QpMapTest, FindsWhatIsThereThroughGrowthAndRemoval) {
  provider::QpMap map;
  const auto as_qp = [](uint32_t qpn) {
    return reinterpret_cast<provider::Qp*>(uintptr_t{qpn} * 8);
  };
  EXPECT_EQ(map.find(1), nullptr);
  map.remove(1, as_qp(1));
  // A step of 256 makes neighbours collide.
  for (uint32_t i = 1; i <= 500; ++i) ASSERT_TRUE(map.insert(i * 256, as_qp(i)));
  ASSERT_TRUE(map.insert(256, as_qp(1))) << "twice is once";
  EXPECT_EQ(map.count(), 500U);
  for (uint32_t i = 1; i <= 500; i += 2) map.remove(i * 256, as_qp(i));
  map.remove(512, as_qp(1));  // not that one
  EXPECT_EQ(map.count(), 250U);
  for (uint32_t i = 1; i <= 500; ++i) {
    ASSERT_EQ(map.find(i * 256), i % 2 == 1 ? nullptr : as_qp(i)) << i;
  }
}

}  // namespace
}  // namespace verbena::test
