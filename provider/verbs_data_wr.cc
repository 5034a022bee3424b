// ibv_wr_start ... ibv_wr_complete: the extended posting calls.
//
// The send lock is held from start to complete or abort. An error in any call of the batch shows in
// ibv_wr_complete, and then nothing of the batch is posted.

#include <cerrno>
#include <cstring>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

constexpr unsigned kUserFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

uint8_t* payload(abi::SendWqe* wqe) {
  return reinterpret_cast<uint8_t*>(wqe) + sizeof(abi::SendWqe);
}

void set_error(Qp& qp, int error) {
  if (qp.batch_error == 0) qp.batch_error = error;
  qp.batch_wqe = nullptr;
}

// Begins the next entry with the wr_id and flags that the application has set in the ibv_qp_ex.
// Null when the batch is in error.
abi::SendWqe* begin(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint64_t op_flag) {
  Qp& qp = *to_qp(ex);
  WorkQueue& sq = qp.sq;
  if (qp.batch_error != 0) return nullptr;
  int error = 0;
  if ((qp.send_ops & op_flag) == 0) {
    error = EOPNOTSUPP;
  } else if (!may_post_send(qp) || (ex->wr_flags & ~(kUserFlags | IBV_SEND_INLINE)) != 0) {
    error = EINVAL;
  } else if (sq.full(qp.batch_next)) {
    error = ENOMEM;
  }
  if (error != 0) {
    set_error(qp, error);
    return nullptr;
  }
  const uint32_t index = qp.batch_next++;
  auto* wqe = reinterpret_cast<abi::SendWqe*>(sq.slot(index));
  *wqe = {};
  wqe->opcode = static_cast<uint8_t>(opcode);
  wqe->flags = static_cast<uint8_t>(ex->wr_flags & kUserFlags);
  sq.wr_ids[index & sq.mask].store(ex->wr_id, std::memory_order_relaxed);
  qp.batch_wqe = wqe;
  return wqe;
}

void begin_remote(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint64_t op_flag, uint32_t rkey,
                  uint64_t remote_addr, uint32_t imm_wire = 0) {
  abi::SendWqe* wqe = begin(ex, opcode, op_flag);
  if (wqe == nullptr) return;
  wqe->rkey = rkey;
  wqe->remote_va = remote_addr;
  wqe->imm_wire = imm_wire;
}

void wr_rdma_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  begin_remote(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr);
}

void wr_rdma_write_imm(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr, __be32 imm_data) {
  begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey,
               remote_addr, imm_data);
}

void wr_rdma_read(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  begin_remote(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr);
}

void wr_send(ibv_qp_ex* ex) {
  begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

void wr_send_imm(ibv_qp_ex* ex, __be32 imm_data) {
  abi::SendWqe* wqe = begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);
  if (wqe != nullptr) wqe->imm_wire = imm_data;
}

void wr_set_ud_addr(ibv_qp_ex* ex, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  Qp& qp = *to_qp(ex);
  if (qp.batch_wqe == nullptr || ah == nullptr) return set_error(qp, EINVAL);
  qp.batch_wqe->ah = ah->handle;
  qp.batch_wqe->remote_qpn = remote_qpn;
  qp.batch_wqe->remote_qkey = remote_qkey;
}

void wr_set_sge_list(ibv_qp_ex* ex, size_t num_sge, const ibv_sge* sg_list) {
  Qp& qp = *to_qp(ex);
  if (qp.batch_wqe == nullptr) return set_error(qp, EINVAL);
  if (num_sge > qp.sq.max_sge) return set_error(qp, EINVAL);
  qp.batch_wqe->num_sge = static_cast<uint16_t>(num_sge);
  qp.batch_wqe->inline_length = 0;
  qp.batch_wqe->flags &= static_cast<uint8_t>(~abi::kWrInline);
  if (num_sge > 0) std::memcpy(payload(qp.batch_wqe), sg_list, num_sge * sizeof(abi::Sge));
}

void wr_set_sge(ibv_qp_ex* ex, uint32_t lkey, uint64_t addr, uint32_t length) {
  const ibv_sge sge{addr, length, lkey};
  wr_set_sge_list(ex, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* ex, size_t num_buf, const ibv_data_buf* buffers) {
  Qp& qp = *to_qp(ex);
  abi::SendWqe* wqe = qp.batch_wqe;
  if (wqe == nullptr || wqe->opcode == IBV_WR_RDMA_READ) return set_error(qp, EINVAL);
  size_t length = 0;
  for (size_t i = 0; i < num_buf; ++i) {
    if (buffers[i].length > qp.max_inline - length) return set_error(qp, EINVAL);
    if (buffers[i].length != 0) {
      std::memcpy(payload(wqe) + length, buffers[i].addr, buffers[i].length);
    }
    length += buffers[i].length;
  }
  wqe->num_sge = 0;
  wqe->inline_length = static_cast<uint32_t>(length);
  wqe->flags |= abi::kWrInline;
}

void wr_set_inline_data(ibv_qp_ex* ex, void* addr, size_t length) {
  const ibv_data_buf buffer{addr, length};
  wr_set_inline_data_list(ex, 1, &buffer);
}

void wr_start(ibv_qp_ex* ex) {
  Qp& qp = *to_qp(ex);
  qp.sq.lock.lock();
  qp.batch_next = qp.sq.tail.load(std::memory_order_relaxed);
  qp.batch_error = 0;
  qp.batch_wqe = nullptr;
}

int wr_complete(ibv_qp_ex* ex) {
  Qp& qp = *to_qp(ex);
  WorkQueue& sq = qp.sq;
  const int error = qp.batch_error;
  const bool posted = error == 0 && qp.batch_next != sq.tail.load(std::memory_order_relaxed);
  if (posted) {
    sq.tail.store(qp.batch_next, std::memory_order_release);
    qp.header->sq_tail.store(qp.batch_next, std::memory_order_release);
  }
  sq.lock.unlock();
  if (posted) ring_doorbell(qp);
  return error;
}

void wr_abort(ibv_qp_ex* ex) {
  to_qp(ex)->sq.lock.unlock();
}

}  // namespace

void set_wr_functions(Qp& qp, uint64_t send_ops) {
  qp.send_ops = send_ops;
  ibv_qp_ex& ex = qp.base.ex;
  ex.wr_rdma_read = wr_rdma_read;
  ex.wr_rdma_write = wr_rdma_write;
  ex.wr_rdma_write_imm = wr_rdma_write_imm;
  ex.wr_send = wr_send;
  ex.wr_send_imm = wr_send_imm;
  ex.wr_set_inline_data = wr_set_inline_data;
  ex.wr_set_inline_data_list = wr_set_inline_data_list;
  ex.wr_set_sge = wr_set_sge;
  ex.wr_set_sge_list = wr_set_sge_list;
  if (qp.base.qp.qp_type == IBV_QPT_UD) ex.wr_set_ud_addr = wr_set_ud_addr;
  ex.wr_start = wr_start;
  ex.wr_complete = wr_complete;
  ex.wr_abort = wr_abort;
  for (uint64_t& mask : qp.base.tail.comp_mask) mask = rdma::kQpHasEx;
}

}  // namespace verbena::provider
