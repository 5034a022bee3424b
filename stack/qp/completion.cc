#include "stack/qp/completion.h"

namespace verbena {
namespace {

abi::WcOpcode wc_opcode(const SendWr& wr) {
  if (wr.is_read()) return abi::WcOpcode::kRead;
  return wr.is_write() ? abi::WcOpcode::kWrite : abi::WcOpcode::kSend;
}

void push(Engine& engine, Qp& qp, Cq& cq, const Completion& completion) {
  if (cq.push(completion, engine.now, engine.events)) return;
  ++engine.stats.cq_overruns;
  if (qp.state == QpState::kErr) return;
  engine.async_event(qp, AsyncEventType::kQpFatal);
  enter_error(engine, qp);
}

void push_send(Engine& engine, Qp& qp, uint32_t index, const SendWr* wr, abi::WcStatus status,
               abi::VendorErr vendor) {
  Completion completion;
  completion.kind = abi::kCqeSend;
  completion.wqe_index = index;
  completion.qpn = qp.qpn;
  completion.status = status;
  completion.vendor_err = vendor;
  if (wr != nullptr) {
    completion.opcode = wc_opcode(*wr);
    completion.byte_len = wr->length;
  }
  push(engine, qp, *qp.send_cq, completion);
}

abi::CqeKind recv_kind(const Qp& qp) {
  return qp.srq != nullptr ? abi::kCqeSrqRecv : abi::kCqeRecv;
}

void push_recv_error(Engine& engine, Qp& qp, uint32_t index, abi::WcStatus status,
                     abi::VendorErr vendor) {
  Completion completion;
  completion.kind = recv_kind(qp);
  completion.opcode = abi::WcOpcode::kRecv;
  completion.wqe_index = index;
  completion.qpn = qp.qpn;
  completion.status = status;
  completion.vendor_err = vendor;
  push(engine, qp, *qp.recv_cq, completion);
}

}  // namespace

void complete_send(Engine& engine, Qp& qp) {
  const uint32_t index = qp.sq.head++;
  const SendWr& wr = qp.sq.at(index);
  if (qp.req.failed && qp.req.failed_index == index) qp.req.failed = false;
  if (qp.sig_all || (wr.flags & abi::kWrSignaled)) {
    push_send(engine, qp, index, &wr, abi::WcStatus::kSuccess, abi::VendorErr::kNone);
  }
}

void fail_send(Engine& engine, Qp& qp, abi::WcStatus status, abi::VendorErr vendor) {
  VERBENA_ASSERT(!qp.sq.empty());
  const uint32_t index = qp.sq.head++;
  ++engine.stats.req_cqe_error;
  engine.verdict = {.kind = RxVerdict::Kind::kConnectionEnds};
  push_send(engine, qp, index, nullptr, status, vendor);
  enter_error(engine, qp);
}

void fail_send_in_order(Engine& engine, Qp& qp, uint32_t index, abi::WcStatus status,
                        abi::VendorErr vendor) {
  qp.req.failed = true;
  qp.req.failed_index = index;
  qp.req.failed_status = status;
  qp.req.failed_vendor = vendor;
  check_failed_send(engine, qp);
}

void check_failed_send(Engine& engine, Qp& qp) {
  if (!qp.req.failed || qp.req.failed_index != qp.sq.head) return;
  qp.req.failed = false;
  fail_send(engine, qp, qp.req.failed_status, qp.req.failed_vendor);
}

void complete_recv(Engine& engine, Qp& qp, const Received& received) {
  VERBENA_ASSERT(qp.resp.at.recv_held);
  qp.resp.at.recv_held = false;
  Completion completion;
  completion.kind = recv_kind(qp);
  completion.opcode = received.opcode;
  completion.wqe_index = qp.resp.at.recv.index;
  completion.qpn = qp.qpn;
  completion.src_qpn = received.src_qpn;
  completion.byte_len = received.byte_len;
  completion.imm_wire = received.imm_wire;
  completion.flags = static_cast<uint8_t>((received.has_imm ? abi::kWcWithImm : 0) |
                                          (received.has_grh ? abi::kWcGrh : 0));
  completion.solicited = received.solicited;
  push(engine, qp, *qp.recv_cq, completion);
}

void fail_recv(Engine& engine, Qp& qp, abi::WcStatus status, abi::VendorErr vendor) {
  VERBENA_ASSERT(qp.resp.at.recv_held);
  qp.resp.at.recv_held = false;
  ++engine.stats.resp_cqe_error;
  push_recv_error(engine, qp, qp.resp.at.recv.index, status, vendor);
}

void report_drained(Engine& engine, Qp& qp) {
  if (qp.state != QpState::kSqd || !qp.sq.empty() || qp.req.drain_reported) return;
  qp.req.drain_reported = true;
  if (qp.attr.en_sqd_async_notify) engine.async_event(qp, AsyncEventType::kSqDrained);
}

void stop_requester(Engine& engine, Qp& qp) {
  qp.req.hold_until = 0;
  qp.req.ack_deadline = kNever;
  engine.arm_timer(qp);
}

void enter_error(Engine& engine, Qp& qp) {
  if (qp.state == QpState::kErr) return;
  qp.state = QpState::kErr;
  stop_requester(engine, qp);
  // The buffers belong to the client again once their work requests are completed.
  engine.placement.discard(&qp);
  // The client looks at `flushing` after it has stored a new receive tail; we look at the tail
  // after having stored `flushing`. One of the two sees the other.
  qp.header().flushing.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  flush_queues(engine, qp);
  // Nothing more will be taken from the shared receive queue (QP-ERR-4).
  if (qp.srq != nullptr) engine.async_event(qp, AsyncEventType::kQpLastWqeReached);
}

void flush_queues(Engine& engine, Qp& qp) {
  uint32_t tail;
  if (qp.sq.tail(tail)) {
    for (uint32_t i = qp.sq.head; i != tail; ++i) {
      ++engine.stats.req_cqe_flush_error;
      push_send(engine, qp, i, nullptr, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
    }
    qp.sq.head = qp.sq.fetched = tail;
    qp.req.cursor = tail;
    qp.req.cursor_packet = 0;
    qp.req.read_count = 0;
    qp.req.failed = false;
  }
  if (qp.resp.at.recv_held) {
    qp.resp.at.recv_held = false;
    ++engine.stats.resp_cqe_flush_error;
    push_recv_error(engine, qp, qp.resp.at.recv.index, abi::WcStatus::kWrFlush,
                    abi::VendorErr::kFlushed);
  }
  if (qp.srq == nullptr && qp.rq.tail(tail)) {
    for (; qp.rq.head != tail; ++qp.rq.head) {
      ++engine.stats.resp_cqe_flush_error;
      push_recv_error(engine, qp, qp.rq.head, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
    }
  }
}

void broken_ring(Engine& engine, Qp& qp) {
  ++engine.stats.malformed_wqe;
  if (qp.state == QpState::kErr) return;
  engine.async_event(qp, AsyncEventType::kQpFatal);
  enter_error(engine, qp);
}

}  // namespace verbena
