// ibv_post_send and ibv_post_recv: work requests go into the shared rings.

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

static_assert(sizeof(ibv_sge) == sizeof(abi::Sge));
static_assert(offsetof(ibv_sge, length) == offsetof(abi::Sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(abi::Sge, lkey));

constexpr unsigned kKnownFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

bool has_remote_address(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
         opcode == IBV_WR_RDMA_READ;
}

bool opcode_is_allowed(ibv_wr_opcode opcode, bool is_ud) {
  if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM) return true;
  return !is_ud && has_remote_address(opcode);
}

// Gathers the buffers behind the head, as far as `limit` allows.
bool copy_inline(const ibv_send_wr& wr, uint32_t limit, uint8_t* out, uint32_t& length) {
  length = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length > limit - length) return false;
    if (sge.length != 0) {
      std::memcpy(out + length, reinterpret_cast<const void*>(sge.addr), sge.length);
    }
    length += sge.length;
  }
  return true;
}

int write_send(Qp& qp, const ibv_send_wr& wr, uint32_t index) {
  WorkQueue& sq = qp.sq;
  if (sq.full(index)) return ENOMEM;
  const bool is_ud = qp.base.qp.qp_type == IBV_QPT_UD;
  if (!opcode_is_allowed(wr.opcode, is_ud) || (wr.send_flags & ~kKnownFlags) != 0) return EINVAL;
  if (is_ud && wr.wr.ud.ah == nullptr) return EINVAL;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > sq.max_sge) return EINVAL;

  uint8_t* slot = sq.slot(index);
  abi::SendWqe wqe{};
  wqe.opcode = static_cast<uint8_t>(wr.opcode);
  wqe.flags = static_cast<uint8_t>(wr.send_flags);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (wr.opcode == IBV_WR_RDMA_READ) return EINVAL;
    if (!copy_inline(wr, qp.max_inline, slot + sizeof wqe, wqe.inline_length)) return EINVAL;
  } else {
    wqe.num_sge = static_cast<uint16_t>(wr.num_sge);
    if (wr.num_sge > 0) {
      std::memcpy(slot + sizeof wqe, wr.sg_list, sizeof(abi::Sge) * wqe.num_sge);
    }
  }
  if (wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    wqe.imm_wire = wr.imm_data;
  }
  if (has_remote_address(wr.opcode)) {
    wqe.remote_va = wr.wr.rdma.remote_addr;
    wqe.rkey = wr.wr.rdma.rkey;
  }
  if (is_ud) {
    wqe.ah = wr.wr.ud.ah->handle;
    wqe.remote_qpn = wr.wr.ud.remote_qpn;
    wqe.remote_qkey = wr.wr.ud.remote_qkey;
  }
  std::memcpy(slot, &wqe, sizeof wqe);
  sq.wr_ids[index & sq.mask].store(wr.wr_id, std::memory_order_relaxed);
  return 0;
}

int write_recv(WorkQueue& rq, const ibv_recv_wr& wr, uint32_t index) {
  if (rq.full(index)) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > rq.max_sge) return EINVAL;
  uint8_t* slot = rq.slot(index);
  abi::RecvWqe wqe{};
  wqe.num_sge = static_cast<uint32_t>(wr.num_sge);
  std::memcpy(slot, &wqe, sizeof wqe);
  if (wr.num_sge > 0) {
    std::memcpy(slot + sizeof wqe, wr.sg_list, sizeof(abi::Sge) * wqe.num_sge);
  }
  rq.wr_ids[index & rq.mask].store(wr.wr_id, std::memory_order_relaxed);
  return 0;
}

}  // namespace

bool may_post_send(const Qp& qp) {
  const uint32_t state = qp.state.load(std::memory_order_relaxed);
  return state != IBV_QPS_RESET && state != IBV_QPS_INIT && state != IBV_QPS_RTR;
}

void ring_doorbell(Qp& qp) {
  Context& context = *qp.context;
  context.doorbells->ring(qp.doorbell_slot);
  if (context.worker->sleeping.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  // Nothing to do when it fails: a full counter already wakes the daemon.
  const uint64_t kick = 1;
  [[maybe_unused]] const ssize_t put = write(context.kick_fd, &kick, sizeof kick);
}

int post_send(ibv_qp* ibv, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = *to_qp(ibv);
  WorkQueue& sq = qp.sq;
  int error = 0;
  bool posted = false;
  {
    SpinGuard guard(sq.lock);
    const uint32_t first = sq.tail.load(std::memory_order_relaxed);
    uint32_t next = first;
    if (!may_post_send(qp)) error = EINVAL;
    for (; wr != nullptr && error == 0; wr = error == 0 ? wr->next : wr) {
      error = write_send(qp, *wr, next);
      if (error == 0) ++next;
    }
    posted = next != first;
    if (posted) {
      sq.tail.store(next, std::memory_order_release);
      qp.header->sq_tail.store(next, std::memory_order_release);
    }
  }
  if (posted) ring_doorbell(qp);
  if (error != 0) *bad_wr = wr;
  return error;
}

int post_recv(ibv_qp* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp& qp = *to_qp(ibv);
  WorkQueue& rq = qp.rq;
  int error = 0;
  bool posted = false;
  {
    SpinGuard guard(rq.lock);
    const uint32_t first = rq.tail.load(std::memory_order_relaxed);
    uint32_t next = first;
    if (qp.srq != nullptr || qp.state.load(std::memory_order_relaxed) == IBV_QPS_RESET) {
      error = EINVAL;
    }
    for (; wr != nullptr && error == 0; wr = error == 0 ? wr->next : wr) {
      error = write_recv(rq, *wr, next);
      if (error == 0) ++next;
    }
    posted = next != first;
    if (posted) {
      rq.tail.store(next, std::memory_order_release);
      qp.header->rq_tail.store(next, std::memory_order_release);
    }
  }
  if (posted) {
    // Either the daemon sees the new tail when it enters the error state, or we see its word.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (qp.header->flushing.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring_doorbell(qp);
  }
  if (error != 0) *bad_wr = wr;
  return error;
}

}  // namespace verbena::provider
