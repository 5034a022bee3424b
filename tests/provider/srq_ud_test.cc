// Shared receive queues, UD queue pairs and address handles: what lies in the rings, what comes
// back.

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/provider/provider_fixture.h"

namespace verbena::test {
namespace {

using SrqTest = ProviderTest;
using UdTest = ProviderTest;
using AhTest = ProviderTest;

uint32_t num_sge_in(const FakeSrq& srq, uint32_t slot) {
  abi::RecvWqe wqe;
  std::memcpy(&wqe, srq.slot(slot), sizeof wqe);
  return wqe.num_sge;
}

TEST_F(SrqTest, CreationCarriesTheLimitsBothWays) {
  make_pd();
  ibv_srq_init_attr attr{};
  attr.attr = {10, 3, 0xDEAD};
  ibv_srq* srq = keep(ibv_create_srq(pd_, &attr));
  ASSERT_NE(srq, nullptr);
  const auto made = fake(srq);
  EXPECT_EQ(made->request.pd, pd_->handle);
  EXPECT_EQ(made->request.user_handle, reinterpret_cast<uint64_t>(srq));
  EXPECT_EQ(made->request.srq_limit, 0U) << "of no meaning at creation";
  EXPECT_EQ(attr.attr.max_wr, 10U);
  EXPECT_EQ(attr.attr.max_sge, 3U);

  ibv_srq_init_attr_ex extended{};
  extended.attr = {4, 1, 0};
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  extended.srq_type = IBV_SRQT_BASIC;
  extended.pd = pd_;
  EXPECT_NE(keep(ibv_create_srq_ex(context_, &extended)), nullptr);
  extended.srq_type = IBV_SRQT_XRC;
  EXPECT_EQ(ibv_create_srq_ex(context_, &extended), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SrqTest, AttributesGoThroughByTheirMask) {
  ibv_srq* srq = make_srq();
  ibv_srq_attr attr;
  std::memset(&attr, 0xA5, sizeof attr);
  attr.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  const abi::ModifySrq sent = fake(srq)->changes.at(0);
  EXPECT_EQ(sent.attr_mask, static_cast<uint32_t>(IBV_SRQ_LIMIT));
  EXPECT_EQ(sent.attr.srq_limit, 3U);
  EXPECT_EQ(sent.attr.max_wr, 0U);
  {
    const auto lock = daemon_.state();
    daemon_.srq_answer = {4, 2, 3, 0};
    daemon_.errors[abi::Op::kModifySrq] = EOPNOTSUPP;
  }
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
  ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_EQ(attr.max_wr, 4U);
  EXPECT_EQ(attr.max_sge, 2U);
  EXPECT_EQ(attr.srq_limit, 3U);
}

TEST_F(SrqTest, UnsoundLayoutFromTheDaemonIsRefused) {
  make_pd();
  {
    const auto lock = daemon_.state();
    daemon_.unsound_srqs = true;
  }
  EXPECT_EQ(make_srq(), nullptr);
  EXPECT_EQ(errno, EPROTO);
  const auto lock = daemon_.state();
  EXPECT_TRUE(daemon_.srqs.empty()) << "what the daemon had made is destroyed again";
}

TEST_F(SrqTest, PostedRequestsLieInSlotsInOrder) {
  ibv_srq* srq = make_srq(4, 2);
  const auto ring = fake(srq);
  ibv_sge list[2] = {{0x1000, 10, 7}, {0x2000, 20, 8}};
  ibv_recv_wr second{}, first{}, *bad = nullptr;
  first.wr_id = 100;
  first.next = &second;
  first.sg_list = list;
  first.num_sge = 2;
  second.wr_id = 101;
  ASSERT_EQ(ibv_post_srq_recv(srq, &first, &bad), 0);
  ASSERT_EQ(ring->tail(), 2U);
  EXPECT_NE(ring->slot_at(0), ring->slot_at(1));
  EXPECT_EQ(num_sge_in(*ring, ring->slot_at(0)), 2U);
  EXPECT_EQ(num_sge_in(*ring, ring->slot_at(1)), 0U);
  abi::Sge sge;
  std::memcpy(&sge, ring->slot(ring->slot_at(0)) + sizeof(abi::RecvWqe) + sizeof sge, sizeof sge);
  EXPECT_EQ(sge.va, 0x2000U);
  EXPECT_EQ(sge.length, 20U);
  EXPECT_EQ(sge.lkey, 8U);
  EXPECT_TRUE(daemon_.drain_doorbells().empty()) << "the daemon looks when a message comes";
}

TEST_F(SrqTest, WhatBreaksALimitIsRefusedAndNamed) {
  ibv_srq* srq = make_srq(3, 2);
  ibv_sge list[3] = {sge_, sge_, sge_};
  ibv_recv_wr good{}, wr{}, *bad = nullptr;
  good.next = &wr;
  wr.sg_list = list;
  wr.num_sge = 3;
  EXPECT_EQ(ibv_post_srq_recv(srq, &good, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  EXPECT_EQ(fake(srq)->tail(), 1U) << "those before it are posted";
  wr.num_sge = -1;
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  EXPECT_EQ(post_srq_recv(srq, 1), 0);
  EXPECT_EQ(post_srq_recv(srq, 2), 0);
  EXPECT_EQ(post_srq_recv(srq, 3), ENOMEM) << "max_wr, though the ring is deeper";
  EXPECT_EQ(fake(srq)->tail(), 3U);
}

TEST_F(SrqTest, QueuePairsThatUseItTakeNoReceivesOfTheirOwn) {
  ibv_srq* srq = make_srq();
  ibv_qp* qp = make_qp({.recv_wr = 100, .srq = srq});
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(fake(qp)->request.srq, srq->handle);
  EXPECT_EQ(qp->srq, srq);
  to_rts(qp);
  EXPECT_EQ(post_recv(qp, 1), EINVAL);
  EXPECT_EQ(post_send(qp, 1), 0);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.srq, srq);
  EXPECT_EQ(init.cap.max_recv_wr, 0U);
  EXPECT_EQ(destroy(srq), EBUSY);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(srq), 0);
}

TEST_F(SrqTest, CompletionsOutOfOrderGiveTheirSlotsBack) {
  ibv_srq* srq = make_srq(4);
  ibv_qp* first = make_qp({.srq = srq});
  ibv_qp* second = make_qp({.srq = srq});
  const auto ring = fake(srq);
  uint32_t slots[5];  // as the daemon takes them, before the ring comes round
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(post_srq_recv(srq, 10 + i), 0);
    slots[i] = ring->slot_at(i);
  }
  // The first queue pair is in the middle of a long message when the second's is complete.
  fake(cq_)->push(second->qp_num, slots[1], abi::kCqeSrqRecv);
  ibv_wc wc = poll(cq_, 1).at(0);
  EXPECT_EQ(wc.wr_id, 11U);
  EXPECT_EQ(wc.qp_num, second->qp_num);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  ASSERT_EQ(post_srq_recv(srq, 14), 0);
  slots[4] = ring->slot_at(4);
  EXPECT_EQ(slots[4], slots[1]) << "the one that was free";
  EXPECT_EQ(post_srq_recv(srq, 15), ENOMEM);
  for (uint32_t i : {3U, 0U, 4U, 2U}) {
    fake(cq_)->push(first->qp_num, slots[i], abi::kCqeSrqRecv);
    EXPECT_EQ(poll(cq_, 1).at(0).wr_id, 10 + i);
  }
}

TEST_F(SrqTest, SlotsWrapManyTimes) {
  ibv_srq* srq = make_srq(5);
  ibv_qp* qp = make_qp({.srq = srq});
  const auto ring = fake(srq);
  uint32_t seed = 1;
  std::vector<std::pair<uint64_t, uint32_t>> posted;  // wr_id, slot
  for (uint32_t i = 0; i < 3000; ++i) {
    seed = seed * 1664525 + 1013904223;
    if (posted.size() < 5 && (posted.empty() || (seed >> 16) % 2 == 0)) {
      const uint32_t tail = ring->tail();
      ASSERT_EQ(post_srq_recv(srq, i), 0);
      for (const auto& [wr_id, slot] : posted) ASSERT_NE(slot, ring->slot_at(tail)) << wr_id;
      posted.push_back({i, ring->slot_at(tail)});
    } else {
      const auto one = posted.begin() + (seed >> 8) % posted.size();
      fake(cq_)->push(qp->qp_num, one->second, abi::kCqeSrqRecv);
      ASSERT_EQ(poll(cq_, 1).at(0).wr_id, one->first);
      posted.erase(one);
    }
  }
}

TEST_F(SrqTest, DiscardedCompletionsGiveTheirSlotsBack) {
  ibv_srq* srq = make_srq(2);
  ibv_qp* gone = make_qp({.srq = srq});
  ibv_qp* reset = make_qp({.srq = srq});
  const auto ring = fake(srq);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(post_srq_recv(srq, i), 0);
  fake(cq_)->push(gone->qp_num, ring->slot_at(0), abi::kCqeSrqRecv);
  fake(cq_)->push(reset->qp_num, ring->slot_at(1), abi::kCqeSrqRecv);
  ASSERT_EQ(post_srq_recv(srq, 2), ENOMEM);
  ASSERT_EQ(destroy(gone), 0);
  EXPECT_EQ(post_srq_recv(srq, 2), 0);
  EXPECT_EQ(post_srq_recv(srq, 3), ENOMEM);
  ASSERT_EQ(modify_state(reset, IBV_QPS_RESET), 0);
  EXPECT_EQ(post_srq_recv(srq, 3), 0);
  EXPECT_EQ(post_srq_recv(srq, 4), ENOMEM);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
}

TEST_F(SrqTest, SlotsThatAreNotPostedChangeNothing) {
  ibv_srq* srq = make_srq(2);
  ibv_qp* qp = make_qp({.srq = srq});
  const auto ring = fake(srq);
  ASSERT_EQ(post_srq_recv(srq, 7), 0);
  for (uint32_t slot : {ring->slot_at(0), ring->slot_at(0), 2U, 0xFFFFFFFFU}) {
    fake(cq_)->push(qp->qp_num, slot, abi::kCqeSrqRecv);
  }
  EXPECT_EQ(poll(cq_, 4).at(0).wr_id, 7U);
  EXPECT_EQ(post_srq_recv(srq, 8), 0);
  EXPECT_EQ(post_srq_recv(srq, 9), 0);
  EXPECT_NE(ring->slot_at(1), ring->slot_at(2));
  EXPECT_EQ(post_srq_recv(srq, 10), ENOMEM);
}

TEST_F(SrqTest, PostersAndPollersShareIt) {
  constexpr uint32_t kCount = 20000;
  make_cq(64);
  ibv_srq* srq = make_srq(32);
  ibv_qp* qp = make_qp({.srq = srq});
  const auto ring = fake(srq);
  const auto completions = fake(cq_);
  std::atomic<uint32_t> next{0}, seen{0};
  std::vector<std::atomic<int>> times(kCount);
  const auto post = [&] {
    for (uint32_t id = next++; id < kCount; id = next++) {
      while (post_srq_recv(srq, id) == ENOMEM) std::this_thread::yield();
    }
  };
  std::thread poster(post), second_poster(post), poller([&] {
    ibv_wc wc;
    while (seen < kCount) {
      if (ibv_poll_cq(cq_, 1, &wc) == 1) ++times[wc.wr_id], ++seen;
    }
  });
  for (uint32_t i = 0; i < kCount; ++i) {  // the daemon's part
    while (ring->tail() == i) std::this_thread::yield();
    const uint32_t slot = ring->slot_at(i);
    completions->push(qp->qp_num, slot, abi::kCqeSrqRecv);
  }
  poster.join();
  second_poster.join();
  poller.join();
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(times[i], 1) << i;
}

TEST_F(SrqTest, DeathOfTheDaemonFlushesNoSharedReceives) {
  ibv_srq* srq = make_srq();
  ibv_qp* qp = make_qp({.srq = srq});
  to_rts(qp);
  ASSERT_EQ(post_srq_recv(srq, 1), 0);
  ASSERT_EQ(post_send(qp, 2), 0);
  daemon_.die();
  const ibv_wc wc = poll(cq_, 1).at(0);
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  ibv_wc none;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &none), 0);
  EXPECT_EQ(destroy(srq), EBUSY);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(srq), 0);
}

TEST_F(SrqTest, DestroyingWaitsForAcknowledgements) {
  ibv_srq* srq = make_srq();
  daemon_.send_async(reinterpret_cast<uint64_t>(srq), IBV_EVENT_SRQ_LIMIT_REACHED);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.element.srq, srq);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  {
    const auto lock = daemon_.state();
    daemon_.delivered = {0, 1};
  }
  std::atomic<bool> acknowledged{false};
  std::thread acknowledger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    acknowledged = true;
    ibv_ack_async_event(&event);
  });
  EXPECT_EQ(destroy(srq), 0);
  EXPECT_TRUE(acknowledged);
  acknowledger.join();
}

TEST_F(AhTest, TheAddressReachesTheDaemon) {
  ibv_ah* ah = make_ah(9);
  ASSERT_NE(ah, nullptr);
  {
    const auto lock = daemon_.state();
    const abi::CreateAh& sent = daemon_.ahs.at(ah->handle);
    EXPECT_EQ(sent.pd, pd_->handle);
    EXPECT_EQ(sent.is_global, 1U);
    EXPECT_EQ(sent.dgid[15], 9);
    EXPECT_EQ(sent.hop_limit, 64U);
    EXPECT_EQ(sent.traffic_class, 0x60U);
    EXPECT_EQ(sent.port_num, 1U);
  }
  EXPECT_EQ(destroy(ah), 0);
  const auto lock = daemon_.state();
  EXPECT_TRUE(daemon_.ahs.empty());
}

TEST_F(AhTest, WhatCannotBeReachedIsRefused) {
  make_pd();
  ibv_ah_attr attr{};
  attr.port_num = 1;
  EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL) << "without a GID";
  {
    const auto lock = daemon_.state();
    daemon_.errors[abi::Op::kCreateAh] = EHOSTUNREACH;
  }
  EXPECT_EQ(make_ah(1), nullptr);
  EXPECT_EQ(errno, EHOSTUNREACH);
}

TEST_F(UdTest, AWorkRequestCarriesItsDestination) {
  ibv_ah* ah = make_ah(9);
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD});
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(fake(qp)->request.qp_type, static_cast<uint32_t>(IBV_QPT_UD));
  to_rts(qp);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge_;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = 0x11223344;
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = 0x12345;
  wr.wr.ud.remote_qkey = 0x11111111;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  sge_.length = 5;
  std::memcpy(buffer_, "again", 5);
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  const abi::SendWqe first = fake(qp)->send_wqe(0);
  EXPECT_EQ(first.opcode, static_cast<uint8_t>(abi::WrOpcode::kSendImm));
  EXPECT_EQ(first.imm_wire, 0x11223344U);
  EXPECT_EQ(first.ah, ah->handle);
  EXPECT_EQ(first.remote_qpn, 0x12345U);
  EXPECT_EQ(first.remote_qkey, 0x11111111U);
  EXPECT_EQ(first.remote_va, 0U);
  const abi::SendWqe second = fake(qp)->send_wqe(1);
  EXPECT_EQ(second.inline_length, 5U);
  EXPECT_EQ(second.ah, ah->handle);
  EXPECT_EQ(std::memcmp(fake(qp)->send_entry(1) + sizeof second, "again", 5), 0);
}

TEST_F(UdTest, OtherOperationsAndMissingAddressesAreRefused) {
  ibv_ah* ah = make_ah(9);
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD});
  to_rts(qp);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr.ud.ah = ah;
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    wr.opcode = opcode;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL) << opcode;
    EXPECT_EQ(bad, &wr);
  }
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  EXPECT_EQ(fake(qp)->header().sq_tail.load(), 0U);
  EXPECT_EQ(make_qp({.type = IBV_QPT_UD}, IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(UdTest, TheExtendedApiSetsTheDestination) {
  ibv_ah* ah = make_ah(9);
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD}, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
  to_rts(qp);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(ex, nullptr);
  ibv_wr_start(ex);
  ex->wr_id = 1;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(ex, 7);
  ibv_wr_set_ud_addr(ex, ah, 0x321, 0x22222222);
  ibv_wr_set_sge(ex, 5, 0x4000, 99);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  const abi::SendWqe wqe = fake(qp)->send_wqe(0);
  EXPECT_EQ(wqe.ah, ah->handle);
  EXPECT_EQ(wqe.remote_qpn, 0x321U);
  EXPECT_EQ(wqe.remote_qkey, 0x22222222U);
  EXPECT_EQ(wqe.num_sge, 1);
  ibv_wr_start(ex);
  ibv_wr_set_ud_addr(ex, ah, 1, 1);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL) << "no work request has begun";
}

TEST_F(UdTest, ACompletionTellsWhoSentAndThatAHeaderPrecedes) {
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD});
  to_rts(qp);
  ASSERT_EQ(post_recv(qp, 4), 0);
  const auto ring = fake(cq_);
  ring->push(qp->qp_num, 0, abi::kCqeRecv);
  ring->entry(0).flags = abi::kWcGrh | abi::kWcWithImm;
  const ibv_wc wc = poll(cq_, 1).at(0);
  EXPECT_EQ(wc.wr_id, 4U);
  EXPECT_EQ(wc.src_qp, 0x77U);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH | IBV_WC_WITH_IMM));
}

TEST_F(UdTest, TheQkeyGoesThroughWithItsMask) {
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x11111111;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
  const abi::ModifyQp sent = fake(qp)->changes.at(0);
  EXPECT_EQ(sent.attr.qkey, 0x11111111U);
  EXPECT_EQ(sent.attr_mask,
            static_cast<uint32_t>(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
}

}  // namespace
}  // namespace verbena::test
