// Qp: one queue pair, reliable-connected or unreliable-datagram, as plain state.
//
// The code that works on it is split by job, as in every RoCE implementation: Requester (send
// queue -> request packets), Completer (responses -> retired work requests, recovery), Responder
// (requests -> memory, receive completions, responses), ud (datagrams both ways). QpControl moves
// it between states.
#pragma once

#include <array>
#include <cstdint>

#include "stack/base/fixed_ring.h"
#include "stack/base/timer_heap.h"
#include "stack/cq/cq.h"
#include "stack/objects.h"
#include "stack/qp/srq.h"
#include "stack/qp/work_queue.h"
#include "stack/wire/emit.h"
#include "stack/wire/psn.h"

namespace verbena {

inline constexpr uint32_t kMaxRdAtomic = 16;

// A READ accepted by the responder, kept so that a duplicate can be answered again.
struct ReadResource {
  Psn first_psn;
  uint32_t packets = 0;
  uint64_t va = 0;
  uint32_t length = 0;
  Key rkey = 0;
  uint32_t msn = 0;           // to be sent in its responses
  uint32_t start_packet = 0;  // the response to be sent as First (0, or where a replay starts)
  uint32_t next_packet = 0;   // responses before it are sent
  bool answered = false;      // in full, once at least
  bool repeated = false;      // the request came again

  bool active() const { return next_packet < packets; }
};

struct RequesterState {
  // The next packet to send: packet `cursor_packet` of work request `cursor`.
  uint32_t cursor = 0;
  uint32_t cursor_packet = 0;
  Psn next_psn;  // of the next work request to be fetched
  Psn una;       // oldest PSN not acknowledged
  Psn sent;      // one past the newest PSN ever sent
  // Indices of READs requested and not complete, oldest first.
  std::array<uint32_t, kMaxRdAtomic> reads{};
  uint32_t read_first = 0;
  uint32_t read_count = 0;
  uint32_t read_psns = 0;  // responses outstanding for them
  // Responses of the oldest READ before the first whose bytes wait in Placement.
  uint32_t read_checkpoint = 0;

  uint32_t retries_left = 0;
  uint32_t rnr_retries_left = 0;
  Timestamp hold_until = 0;  // end of the RNR wait; 0 = none
  Timestamp ack_deadline = kNever;
  // A work request that failed locally: it completes with this when it is the oldest.
  bool failed = false;
  uint32_t failed_index = 0;
  abi::WcStatus failed_status = abi::WcStatus::kSuccess;
  abi::VendorErr failed_vendor = abi::VendorErr::kNone;
  ResendCause resend_cause = ResendCause::kNone;  // of the last time it went back
  bool resend_due = false;                        // gone back, and nothing sent again yet
  bool drain_reported = false;                    // SQD: the event was sent

  uint32_t oldest_read() const { return reads[read_first]; }
  void push_read(uint32_t index) { reads[(read_first + read_count++) % kMaxRdAtomic] = index; }
  void pop_read() {
    read_first = (read_first + 1) % kMaxRdAtomic;
    --read_count;
  }
};

enum class InMessage : uint8_t { kNone, kSend, kWrite };

// How far the responder has come; a message in the making included.
struct ResponderProgress {
  Psn epsn;
  InMessage in_message = InMessage::kNone;
  bool recv_held = false;  // `recv` is a receive work request taken from the queue
  RecvWr recv;
  uint64_t offset = 0;    // bytes of the SEND received
  uint64_t write_va = 0;  // WRITE: next address
  Key write_rkey = 0;
  uint32_t write_left = 0;  // bytes still to come
  uint32_t write_total = 0;
};

struct ResponderState {
  ResponderProgress at;
  // `at` before the first packet whose bytes wait in Placement: where to fall back to when the
  // client's memory is not ready.
  ResponderProgress checkpoint;
  uint32_t msn = 0;

  bool gap_naked = false;  // stay silent until the expected PSN arrives (RC-RSP-1, RC-RSP-3)
  bool blocked = false;    // a request was dropped behind an unfinished READ; NAK when it is done
  bool comm_est = false;   // the event was sent

  // What is to be sent. A NAK replaces an ACK; both acknowledge all before.
  bool ack_pending = false;
  Psn ack_psn;
  bool nak_pending = false;
  Psn nak_psn;
  uint8_t nak_syndrome = 0;
  NakCause nak_cause = NakCause::kNone;

  std::array<ReadResource, kMaxRdAtomic> reads{};
  uint32_t read_head = 0;   // slot for the next READ
  uint32_t read_valid = 0;  // slots that hold one
};

struct Qp {
  Qp(Qpn number, ClientId owner, const QpSpec& spec, Cq* send, Cq* recv, Srq* shared,
     uint32_t max_msg_bytes)
      : qpn(number),
        client(owner),
        pd(spec.pd),
        type(spec.type),
        user_handle(spec.user_handle),
        sig_all(spec.sq_sig_all),
        layout(spec.layout),
        region(spec.region),
        send_cq(send),
        recv_cq(recv),
        srq(shared),
        srq_sges(shared != nullptr ? std::make_unique<abi::Sge[]>(shared->max_sge()) : nullptr),
        sq(spec.layout, spec.region, max_msg_bytes),
        rq(spec.layout, spec.region) {
    timer.owner = this;
  }
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  abi::QpHeader& header() const { return *reinterpret_cast<abi::QpHeader*>(region.base); }
  bool takes_requests() const {
    return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
  }
  bool sends_requests() const { return state == QpState::kRts || state == QpState::kSqd; }

  Qpn qpn;
  ClientId client;
  PdId pd;
  QpType type;
  uint64_t user_handle;
  bool sig_all;
  uint32_t doorbell_slot = 0;
  abi::QpLayout layout;
  Region region;
  Cq* send_cq;
  Cq* recv_cq;
  Srq* srq;                              // null: receives come from `rq`
  std::unique_ptr<abi::Sge[]> srq_sges;  // of the held receive work request

  QpState state = QpState::kReset;
  abi::QpAttr attr{};  // as set by modify
  wire::Path path;
  uint32_t mtu = 256;  // bytes

  SendQueue sq;
  RecvQueue rq;
  RequesterState req;
  ResponderState resp;

  // Scheduling (owned by Scheduler).
  TimerEntry timer;
  Qp* next_active = nullptr;
  bool active = false;
};

}  // namespace verbena
