// Completions of a queue pair's work requests, and its way into the error state.
//
//   fail_send / enter_error -> state ERR -> every outstanding work request completes with
//   WR_FLUSH_ERR, send queue and receive queue each in order (QP-ERR-1, QP-ERR-2).
//
// A completion queue that overflows takes the queue pair along (RC-RSP-46). So after any of these
// calls the queue pair may be in ERR; callers look.
#pragma once

#include "stack/abi/cqe.h"
#include "stack/qp/engine.h"

namespace verbena {

// Completes the oldest send work request with success: an entry only if it is signaled.
void complete_send(Engine& engine, Qp& qp);

// Completes the oldest send work request with an error and moves the queue pair to ERR.
void fail_send(Engine& engine, Qp& qp, abi::WcStatus status, abi::VendorErr vendor);

// Remembers that the work request at `index` failed here, and fails it as soon as it is the oldest:
// completions come in order.
void fail_send_in_order(Engine& engine, Qp& qp, uint32_t index, abi::WcStatus status,
                        abi::VendorErr vendor);
// To be called when the head of the send queue moved.
void check_failed_send(Engine& engine, Qp& qp);

struct Received {
  uint32_t byte_len = 0;
  uint32_t imm_wire = 0;
  abi::WcOpcode opcode = abi::WcOpcode::kRecv;
  bool has_imm = false;
  bool has_grh = false;
  bool solicited = false;
  Qpn src_qpn = 0;
};
// Completes the held receive work request.
void complete_recv(Engine& engine, Qp& qp, const Received& received);
void fail_recv(Engine& engine, Qp& qp, abi::WcStatus status, abi::VendorErr vendor);

// Moves to ERR and flushes. What the responder has accepted to answer is still sent.
void enter_error(Engine& engine, Qp& qp);

// Completes all outstanding work requests with WR_FLUSH_ERR; again when more are posted in ERR.
void flush_queues(Engine& engine, Qp& qp);

// A client broke its own ring: the queue pair ends.
void broken_ring(Engine& engine, Qp& qp);

// In SQD: sends the event when all that was started is complete (QP-ERR-6).
void report_drained(Engine& engine, Qp& qp);

// Stops timers and waits of the requester.
void stop_requester(Engine& engine, Qp& qp);

}  // namespace verbena
