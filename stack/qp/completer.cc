#include "stack/qp/completer.h"

#include <algorithm>

#include "stack/qp/completion.h"
#include "stack/qp/requester.h"
#include "stack/qp/store.h"
#include "stack/wire/syndrome.h"

namespace verbena::completer {
namespace {

constexpr uint32_t kInfiniteRnrRetries = 7;  // RC-REQ-41
// Until client memory that was not ready is tried again.
constexpr DurationNs kMemoryPause = 100'000;

void restart_ack_timer(Engine& engine, Qp& qp) {
  const bool outstanding = qp.req.una != qp.req.sent;
  qp.req.ack_deadline = outstanding && qp.attr.timeout != 0
                            ? engine.now + ack_timeout(static_cast<uint8_t>(qp.attr.timeout))
                            : kNever;
  engine.arm_timer(qp);
}

void note_progress(Engine& engine, Qp& qp) {
  qp.req.retries_left = qp.attr.retry_cnt;
  qp.req.rnr_retries_left = qp.attr.rnr_retry;
  restart_ack_timer(engine, qp);
  engine.activate(qp);
}

// Resends from `psn`, or gives up when the retries are used up.
void retry(Engine& engine, Qp& qp, Psn psn, ResendCause cause, abi::VendorErr exhausted) {
  // A second sign of the same loss, before anything was sent again, costs nothing (RC-REQ-22).
  if (!qp.req.resend_due) {
    if (qp.req.retries_left == 0) {
      ++engine.stats.retry_exceeded_err;
      fail_send(engine, qp, abi::WcStatus::kRetryExc, exhausted);
      return;
    }
    --qp.req.retries_left;
  }
  requester::go_back(engine, qp, psn, cause);
  restart_ack_timer(engine, qp);
}

// An answer to something later than this READ's missing responses: they are lost.
void implied_nak(Engine& engine, Qp& qp, SendWr& wr) {
  const Psn missing = wr.first_psn + wr.responses;
  engine.verdict = {
      .kind = wr.recovering ? RxVerdict::Kind::kResponseAwaited : RxVerdict::Kind::kResponseMissing,
      .psn = missing.value()};
  if (wr.recovering) return;
  ++engine.stats.implied_nak_seq_err;
  wr.recovering = true;
  retry(engine, qp, missing, ResendCause::kImpliedNak, abi::VendorErr::kImpliedExhausted);
}

// The cursor may stand, after a go-back, on what turned out to have arrived.
void move_cursor_past(Qp& qp) {
  RequesterState& req = qp.req;
  if (static_cast<int32_t>(req.cursor - qp.sq.head) < 0) {
    req.cursor = qp.sq.head;
    req.cursor_packet = 0;
  }
  if (req.cursor != qp.sq.head || qp.sq.empty()) return;
  const SendWr& wr = qp.sq.at(req.cursor);
  if (wr.is_read() || wr.packets == 0) return;
  const int32_t acked = req.una - wr.first_psn;
  if (acked > 0) req.cursor_packet = std::max(req.cursor_packet, static_cast<uint32_t>(acked));
}

void retire_head(Engine& engine, Qp& qp, const SendWr& wr) {
  qp.req.una = wr.last_psn() + 1;
  if (wr.is_read()) qp.req.pop_read();
  complete_send(engine, qp);
}

// All requests up to and including `through` have arrived. False if a READ before it has not been
// answered in full: recovery was started instead, or the queue pair failed.
bool acknowledge(Engine& engine, Qp& qp, Psn through) {
  const Psn old_una = qp.req.una;
  bool answered = true;
  engine.verdict = {.kind = RxVerdict::Kind::kNothingNew};
  while (qp.sends_requests() && !qp.sq.empty()) {
    SendWr& wr = qp.sq.at(qp.sq.head);
    if (wr.packets == 0 || wr.first_psn.after(through)) break;
    if (wr.is_read() && wr.responses < wr.packets) {
      if ((wr.first_psn + wr.responses).after(through)) break;
      implied_nak(engine, qp, wr);
      answered = false;
      break;
    }
    if (wr.last_psn().after(through)) {
      if ((through + 1).after(qp.req.una)) qp.req.una = through + 1;
      break;
    }
    retire_head(engine, qp, wr);
  }
  if (!qp.sends_requests()) return false;
  if (qp.req.una != old_una) {
    if (answered) {
      engine.verdict = {.kind = RxVerdict::Kind::kAcknowledged, .psn = (qp.req.una - 1).value()};
    }
    move_cursor_past(qp);
    note_progress(engine, qp);
  }
  check_failed_send(engine, qp);
  report_drained(engine, qp);
  return answered && qp.sends_requests();
}

void on_rnr_nak(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  if (qp.req.hold_until != 0) {  // RC-REQ-42
    engine.verdict = {.kind = RxVerdict::Kind::kDuringWait};
    return;
  }
  ++engine.stats.rnr_nak_received;
  if (qp.attr.rnr_retry != kInfiniteRnrRetries) {
    if (qp.req.rnr_retries_left == 0) {
      ++engine.stats.rnr_nak_retry_err;
      fail_send(engine, qp, abi::WcStatus::kRnrRetryExc, abi::VendorErr::kRnrExhausted);
      return;
    }
    --qp.req.rnr_retries_left;
  }
  engine.verdict = {.kind = RxVerdict::Kind::kWaitsForReceive, .psn = packet.psn.value()};
  requester::go_back(engine, qp, packet.psn, ResendCause::kRnrNak);
  qp.req.hold_until = engine.now + rnr_delay(syndrome_value(packet.syndrome));
  qp.req.ack_deadline = kNever;
  engine.arm_timer(qp);
}

void on_nak(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  DeviceStats& stats = engine.stats;
  switch (static_cast<NakCode>(syndrome_value(packet.syndrome))) {
    case NakCode::kPsnSequence:
      ++stats.packet_seq_err;
      // A gap behind the packet that was not ready must not cut the wait short (RC-RSP-3).
      engine.verdict = {.kind = RxVerdict::Kind::kDuringWait};
      if (qp.req.hold_until == 0) {
        engine.verdict = {.kind = RxVerdict::Kind::kGoesBack, .psn = packet.psn.value()};
        retry(engine, qp, packet.psn, ResendCause::kSequenceNak,
              abi::VendorErr::kSequenceExhausted);
      }
      return;
    case NakCode::kInvalidRequest:
      ++stats.req_remote_invalid_request;
      fail_send(engine, qp, abi::WcStatus::kRemInvReq, abi::VendorErr::kNakInvalidRequest);
      return;
    case NakCode::kRemoteAccess:
      ++stats.req_remote_access_errors;
      fail_send(engine, qp, abi::WcStatus::kRemAccess, abi::VendorErr::kNakRemoteAccess);
      return;
    case NakCode::kRemoteOperational:
      ++stats.req_remote_operational_errors;
      fail_send(engine, qp, abi::WcStatus::kRemOp, abi::VendorErr::kNakRemoteOperational);
      return;
  }
  engine.drop(DropReason::kReservedSyndrome);
}

void on_acknowledge(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  switch (syndrome_kind(packet.syndrome)) {
    case SyndromeKind::kAck:
      (void)acknowledge(engine, qp, packet.psn);
      return;
    case SyndromeKind::kRnrNak:
      if (acknowledge(engine, qp, packet.psn - 1)) on_rnr_nak(engine, qp, packet);
      return;
    case SyndromeKind::kNak:
      if (acknowledge(engine, qp, packet.psn - 1)) on_nak(engine, qp, packet);
      return;
    case SyndromeKind::kReserved:
      engine.drop(DropReason::kReservedSyndrome);
      return;
  }
}

// Length and position of a READ response against what is missing (RC-REQ-12).
bool response_fits(const Qp& qp, const SendWr& wr, const wire::ParsedPacket& packet) {
  const uint32_t missing = wr.length - wr.responses * qp.mtu;
  if (packet.payload.size() != std::min(missing, qp.mtu)) return false;
  if (packet.info->ends_message() != (missing <= qp.mtu)) return false;
  if (packet.info->starts_message()) return wr.responses == 0 || wr.restarted;
  return wr.responses != 0;
}

// Stores a response's payload where the work request's SGEs say.
CopyResult scatter(Engine& engine, Qp& qp, uint32_t index, const wire::ParsedPacket& packet) {
  const SendWr& wr = qp.sq.at(index);
  const Placement::Owner owner{&qp, true, packet.psn};
  return scatter_to_sges(engine, owner, qp.pd, qp.sq.sges(index), uint64_t{wr.responses} * qp.mtu,
                         packet.payload);
}

void on_read_response(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  RequesterState& req = qp.req;
  if (req.read_count == 0) return engine.drop(DropReason::kGhostAck);
  const uint32_t index = req.oldest_read();
  SendWr& wr = qp.sq.at(index);
  const int32_t ahead = packet.psn - (wr.first_psn + wr.responses);
  if (ahead < 0) return engine.drop(DropReason::kGhostAck);
  if (ahead > 0) {
    engine.drop(DropReason::kBadResponse);
    if (acknowledge(engine, qp, wr.first_psn - 1)) implied_nak(engine, qp, wr);
    return;
  }
  if (!acknowledge(engine, qp, packet.psn - 1)) return;
  if (!response_fits(qp, wr, packet)) {
    return fail_send(engine, qp, abi::WcStatus::kBadResp, abi::VendorErr::kBadResponse);
  }
  const CopyResult copy = scatter(engine, qp, index, packet);
  if (copy.kind == CopyResult::Kind::kLater || !qp.sends_requests()) return;
  if (!copy.ok()) return fail_send(engine, qp, abi::WcStatus::kLocProt, copy.vendor);
  ++wr.responses;
  wr.recovering = false;
  --req.read_psns;
  engine.verdict = {.kind = RxVerdict::Kind::kReadData};
  if (wr.responses < wr.packets) {
    req.una = packet.psn + 1;
    return note_progress(engine, qp);
  }
  // All bytes are in place before the completion says so.
  if (flush_placement(engine) == &qp || !qp.sends_requests()) return;
  if (acknowledge(engine, qp, packet.psn)) {
    engine.verdict = {.kind = RxVerdict::Kind::kReadData};
  }
}

}  // namespace

void on_response(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  if (!qp.sends_requests()) return engine.drop(DropReason::kQpState);
  // What was never sent, or is long acknowledged (RC-REQ-13, RC-REQ-14).
  if (packet.psn.before(qp.req.una) || !packet.psn.before(qp.req.sent)) {
    return engine.drop(DropReason::kGhostAck);
  }
  switch (packet.info->operation) {
    case Operation::kAcknowledge:
      return on_acknowledge(engine, qp, packet);
    case Operation::kReadResponse:
      return on_read_response(engine, qp, packet);
    default:
      return engine.drop(DropReason::kBadResponse);
  }
}

void on_timer(Engine& engine, Qp& qp) {
  RequesterState& req = qp.req;
  if (!qp.sends_requests()) return;
  if (req.hold_until != 0) {
    if (engine.now < req.hold_until) return engine.arm_timer(qp);
    req.hold_until = 0;
    restart_ack_timer(engine, qp);
    engine.activate(qp);
    return;
  }
  if (engine.now < req.ack_deadline) return engine.arm_timer(qp);
  req.ack_deadline = kNever;
  if (req.una == req.sent || qp.sq.empty()) return;
  // What the last retry is to send has not left yet (the sink is full, or client memory is not
  // ready): the peer cannot have answered it.
  if (req.resend_due) return restart_ack_timer(engine, qp);
  ++engine.stats.local_ack_timeout_err;
  retry(engine, qp, req.una, ResendCause::kAckTimeout, abi::VendorErr::kTimeoutExhausted);
}

void on_store_failed(Engine& engine, Qp& qp, MemResult result) {
  RequesterState& req = qp.req;
  if (!qp.sends_requests() || req.read_count == 0) return;
  SendWr& wr = qp.sq.at(req.oldest_read());
  if (result == MemResult::kLater) {
    // Ask for what could not be stored again after a pause; no retry is spent.
    engine.drop(DropReason::kMemoryLater);
    req.read_psns += wr.responses - req.read_checkpoint;
    wr.responses = req.read_checkpoint;
    wr.recovering = true;
    req.una = wr.first_psn + wr.responses;
    requester::go_back(engine, qp, req.una, ResendCause::kMemoryNotReady);
    req.hold_until = std::max(req.hold_until, engine.now + kMemoryPause);
    req.ack_deadline = kNever;
    engine.arm_timer(qp);
    return;
  }
  if (acknowledge(engine, qp, wr.first_psn - 1)) {
    fail_send(engine, qp, abi::WcStatus::kLocProt, abi::VendorErr::kLocalFault);
  }
}

}  // namespace verbena::completer
