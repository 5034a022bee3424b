// Polling and arming completion queues, and flushing locally once the daemon is gone.

#include <sched.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

// Yielding after this many empty polls in a row: on few cores the daemon needs this one to get on.
constexpr uint32_t kEmptyPollsBeforeYield = 32;
// How often an empty poll may look whether the daemon lives (one system call).
constexpr uint64_t kLookIntervalMs = 10;

uint64_t coarse_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // the vDSO: no system call
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

// Takes the work request off its queue, with those before it that made no completion.
uint64_t retire(WorkQueue& queue, uint32_t index) {
  const uint64_t wr_id = queue.wr_ids[index & queue.mask].load(std::memory_order_relaxed);
  queue.retired.store(index + 1, std::memory_order_release);
  return wr_id;
}

uint64_t retire(Qp& qp, const abi::Cqe& cqe) {
  if (cqe.kind == abi::kCqeSend) return retire(qp.sq, cqe.wqe_index);
  if (qp.srq != nullptr) return retire_srq_slot(*qp.srq, cqe.wqe_index);
  return retire(qp.rq, cqe.wqe_index);
}

void fill(const abi::Cqe& cqe, uint64_t wr_id, ibv_wc& wc) {
  wc.wr_id = wr_id;
  wc.status = static_cast<ibv_wc_status>(cqe.status);
  wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
  wc.vendor_err = cqe.vendor_err;
  wc.byte_len = cqe.byte_len;
  wc.imm_data = cqe.imm_wire;
  wc.qp_num = cqe.qpn;
  wc.src_qp = cqe.src_qpn;
  wc.wc_flags = cqe.flags;
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = 0;
  wc.dlid_path_bits = 0;
}

// The next completion of the ring. The consumer index is not yet stored in the header.
bool take_cqe(Cq& cq, ibv_wc& wc) {
  for (;;) {
    abi::Cqe& cqe = cq.entries[cq.consumer & (cq.depth - 1)];
    if (cqe.sequence.load(std::memory_order_acquire) != cq.consumer + 1) return false;
    ++cq.consumer;
    if (cqe.kind == abi::kCqeDead) continue;
    Qp* qp = cq.qps.find(cqe.qpn);
    if (qp == nullptr) continue;
    fill(cqe, retire(*qp, cqe), wc);
    cq.current_timestamp = cqe.timestamp_ns;
    return true;
  }
}

// ---- The daemon is gone ----

ibv_wc_opcode completion_opcode(const WorkQueue& sq, uint32_t index) {
  abi::SendWqe wqe;
  std::memcpy(static_cast<void*>(&wqe), sq.slot(index), sizeof wqe);
  switch (static_cast<abi::WrOpcode>(wqe.opcode)) {
    case abi::WrOpcode::kWrite:
    case abi::WrOpcode::kWriteImm:
      return IBV_WC_RDMA_WRITE;
    case abi::WrOpcode::kRead:
      return IBV_WC_RDMA_READ;
    default:
      return IBV_WC_SEND;
  }
}

// The oldest outstanding work request of the queue completes as flushed. False: there is none.
bool flush_one(WorkQueue& queue, bool is_send, uint32_t qpn, ibv_wc& wc) {
  const uint32_t index = queue.retired.load(std::memory_order_relaxed);
  if (index == queue.tail.load(std::memory_order_acquire)) return false;
  wc = {};
  wc.opcode = is_send ? completion_opcode(queue, index) : IBV_WC_RECV;
  wc.wr_id = retire(queue, index);
  wc.status = IBV_WC_WR_FLUSH_ERR;
  wc.vendor_err = static_cast<uint32_t>(abi::VendorErr::kDaemonGone);
  wc.qp_num = qpn;
  return true;
}

bool flush_qp(const Cq& cq, Qp& qp, ibv_wc& wc) {
  const ibv_qp& ibv = qp.base.qp;
  if (ibv.send_cq == &cq.base.cq && flush_one(qp.sq, true, ibv.qp_num, wc)) return true;
  return ibv.recv_cq == &cq.base.cq && flush_one(qp.rq, false, ibv.qp_num, wc);
}

bool take_flushed(Cq& cq, ibv_wc& wc) {
  for (uint32_t tried = 0; tried < cq.qps.capacity(); ++tried) {
    if (cq.flush_cursor >= cq.qps.capacity()) cq.flush_cursor = 0;
    Qp* qp = cq.qps.slot(cq.flush_cursor);
    if (qp != nullptr && flush_qp(cq, *qp, wc)) return true;
    ++cq.flush_cursor;
  }
  return false;
}

bool daemon_is_gone(Cq& cq) {
  ControlClient& control = to_context(cq.base.cq.context)->control;
  if (control.gone()) return true;
  const uint64_t now = coarse_ms();
  if (now < cq.next_look_ms) return false;
  cq.next_look_ms = now + kLookIntervalMs;
  // What the daemon stored before its end is in the ring: the next poll delivers it first.
  return control.look_for_end();
}

bool take(Cq& cq, ibv_wc& wc) {
  return take_cqe(cq, wc) ||
         (to_context(cq.base.cq.context)->control.gone() && take_flushed(cq, wc));
}

// Empties as much of the ring as fits; the caller holds the lock.
int take_all(Cq& cq, int wanted, ibv_wc* wc) {
  const uint32_t before = cq.consumer;
  int got = 0;
  while (got < wanted && take(cq, wc[got])) ++got;
  if (cq.consumer != before) cq.header->consumer.store(cq.consumer, std::memory_order_release);
  return got;
}

void after_empty_poll(Cq& cq, bool& yield) {
  daemon_is_gone(cq);
  yield = ++cq.empty_polls > kEmptyPollsBeforeYield;
}

// ---- ibv_start_poll ... ibv_end_poll ----

Cq& advance(ibv_cq_ex* ex, bool& got) {
  Cq& cq = *to_cq(ex);
  got = take(cq, cq.current);
  if (got) {
    ex->wr_id = cq.current.wr_id;
    ex->status = cq.current.status;
  }
  return cq;
}

int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  to_cq(ex)->lock.lock();
  bool got;
  Cq& cq = advance(ex, got);
  if (got) {
    cq.empty_polls = 0;
    return 0;
  }
  cq.header->consumer.store(cq.consumer, std::memory_order_release);
  bool yield;
  after_empty_poll(cq, yield);
  cq.lock.unlock();
  if (yield) sched_yield();
  return ENOENT;
}

int next_poll(ibv_cq_ex* ex) {
  bool got;
  advance(ex, got);
  return got ? 0 : ENOENT;
}

void end_poll(ibv_cq_ex* ex) {
  Cq& cq = *to_cq(ex);
  cq.header->consumer.store(cq.consumer, std::memory_order_release);
  cq.lock.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* ex) {
  return to_cq(ex)->current.opcode;
}
uint32_t read_vendor_err(ibv_cq_ex* ex) {
  return to_cq(ex)->current.vendor_err;
}
uint32_t read_byte_len(ibv_cq_ex* ex) {
  return to_cq(ex)->current.byte_len;
}
__be32 read_imm_data(ibv_cq_ex* ex) {
  return to_cq(ex)->current.imm_data;
}
uint32_t read_qp_num(ibv_cq_ex* ex) {
  return to_cq(ex)->current.qp_num;
}
uint32_t read_src_qp(ibv_cq_ex* ex) {
  return to_cq(ex)->current.src_qp;
}
unsigned read_wc_flags(ibv_cq_ex* ex) {
  return to_cq(ex)->current.wc_flags;
}
uint32_t read_slid(ibv_cq_ex*) {
  return 0;
}
uint8_t read_sl(ibv_cq_ex*) {
  return 0;
}
uint8_t read_dlid_path_bits(ibv_cq_ex*) {
  return 0;
}
uint64_t read_completion_ts(ibv_cq_ex* ex) {
  return to_cq(ex)->current_timestamp;
}

}  // namespace

int poll_cq(ibv_cq* ibv, int num_entries, ibv_wc* wc) {
  Cq& cq = *to_cq(ibv);
  bool yield = false;
  int got;
  {
    SpinGuard guard(cq.lock);
    got = take_all(cq, num_entries, wc);
    if (got > 0) {
      cq.empty_polls = 0;
    } else {
      after_empty_poll(cq, yield);
    }
  }
  if (yield) sched_yield();
  return got;
}

int req_notify_cq(ibv_cq* ibv, int solicited_only) {
  Cq& cq = *to_cq(ibv);
  SpinGuard guard(cq.lock);
  // A request for the next completion of any kind that is still waiting is not narrowed by one for
  // solicited completions only (IBTA vol. 1, 11.4.2.2).
  const bool waiting = cq.header->fired.load(std::memory_order_acquire) != cq.arm;
  if (solicited_only && waiting && (cq.arm & 3) == abi::kArmAny) return 0;
  const uint32_t kind = solicited_only ? abi::kArmSolicited : abi::kArmAny;
  cq.arm = ((cq.arm & ~3U) + 4) | kind;
  cq.header->arm.store(cq.arm, std::memory_order_release);
  // Either the daemon sees the request with its next entry, or the application's next poll sees the
  // entry.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return 0;
}

void purge_cq(Cq& cq, const Qp& qp) {
  for (uint32_t i = cq.consumer;; ++i) {
    abi::Cqe& cqe = cq.entries[i & (cq.depth - 1)];
    if (cqe.sequence.load(std::memory_order_acquire) != i + 1) return;
    if (cqe.qpn != qp.base.qp.qp_num) continue;
    if (cqe.kind == abi::kCqeSrqRecv && qp.srq != nullptr) retire_srq_slot(*qp.srq, cqe.wqe_index);
    cqe.kind = abi::kCqeDead;
  }
}

void set_poll_functions(Cq& cq) {
  ibv_cq_ex& ex = cq.base.ex;
  ex.start_poll = start_poll;
  ex.next_poll = next_poll;
  ex.end_poll = end_poll;
  ex.read_opcode = read_opcode;
  ex.read_vendor_err = read_vendor_err;
  ex.read_byte_len = read_byte_len;
  ex.read_imm_data = read_imm_data;
  ex.read_qp_num = read_qp_num;
  ex.read_src_qp = read_src_qp;
  ex.read_wc_flags = read_wc_flags;
  ex.read_slid = read_slid;
  ex.read_sl = read_sl;
  ex.read_dlid_path_bits = read_dlid_path_bits;
  ex.read_completion_ts = read_completion_ts;
}

}  // namespace verbena::provider
