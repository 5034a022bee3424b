#include "stack/qp/responder.h"

#include <algorithm>

#include "stack/qp/completion.h"
#include "stack/qp/read_replies.h"
#include "stack/qp/recv.h"
#include "stack/qp/store.h"
#include "stack/wire/syndrome.h"

namespace verbena::responder {
namespace {

using wire::ParsedPacket;

// What a step says.
enum class Step : uint8_t { kContinue, kDone };

void note_ack(Engine& engine, Qp& qp, Psn psn) {
  qp.resp.ack_pending = true;
  qp.resp.ack_psn = psn;
  engine.activate(qp);
}

void note_nak(Engine& engine, Qp& qp, Psn psn, uint8_t syndrome, NakCause cause) {
  qp.resp.nak_pending = true;
  qp.resp.nak_psn = psn;
  qp.resp.nak_syndrome = syndrome;
  qp.resp.nak_cause = cause;
  engine.verdict = {.kind = RxVerdict::Kind::kRefused, .nak = cause, .psn = psn.value()};
  engine.activate(qp);
}

// A NAK that ends the connection (RC-RSP-28). The event tells the local application, unless a
// receive completion with an error does.
void refuse(Engine& engine, Qp& qp, Psn psn, NakCode code, NakCause cause) {
  note_nak(engine, qp, psn, nak_syndrome(code), cause);
  if (code == NakCode::kRemoteAccess) {
    ++engine.stats.resp_remote_access_errors;
    engine.async_event(qp, AsyncEventType::kQpAccessErr);
    if (qp.resp.at.recv_held) {
      fail_recv(engine, qp, abi::WcStatus::kRemAccess, abi::VendorErr::kRemoteAccessHere);
    }
  } else {
    ++engine.stats.resp_invalid_requests;
    engine.async_event(qp, AsyncEventType::kQpReqErr);
  }
  enter_error(engine, qp);
}

// A NAK because of the receive work request: its completion carries the status.
void refuse_recv(Engine& engine, Qp& qp, Psn psn, NakCode code, abi::WcStatus status,
                 abi::VendorErr vendor, NakCause cause) {
  note_nak(engine, qp, psn, nak_syndrome(code), cause);
  if (status == abi::WcStatus::kLocLen) ++engine.stats.resp_local_length_error;
  fail_recv(engine, qp, status, vendor);
  enter_error(engine, qp);
}

Step invalid_request(Engine& engine, Qp& qp, const ParsedPacket& packet, NakCause cause) {
  refuse(engine, qp, packet.psn, NakCode::kInvalidRequest, cause);
  return Step::kDone;
}

// A duplicate is never executed again, only answered again (RC-RSP-30, RC-RSP-31).
void on_duplicate(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  ++engine.stats.duplicate_request;
  if (packet.info->operation == Operation::kReadRequest) {
    if (!read_replies::replay(qp, packet)) {
      return engine.drop(DropReason::kDuplicateNotFound);
    }
    engine.verdict = {.kind = RxVerdict::Kind::kDuplicateRead};
    engine.activate(qp);
    return;
  }
  engine.verdict = {.kind = RxVerdict::Kind::kDuplicate};
  note_ack(engine, qp, qp.resp.at.epsn - 1);
}

Step check_psn(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  ResponderState& resp = qp.resp;
  const int32_t ahead = packet.psn - resp.at.epsn;
  if (ahead == 0) return Step::kContinue;
  if (ahead < 0) {
    on_duplicate(engine, qp, packet);
    return Step::kDone;
  }
  ++engine.stats.out_of_sequence;
  if (resp.gap_naked) {
    engine.drop(DropReason::kRepeatedGap);
    engine.verdict.psn = resp.at.epsn.value();
    return Step::kDone;
  }
  resp.gap_naked = true;
  note_nak(engine, qp, resp.at.epsn, nak_syndrome(NakCode::kPsnSequence), NakCause::kGap);
  return Step::kDone;
}

// A message is not interrupted by another (RC-RSP-10).
Step check_op_sequence(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  const InMessage in = qp.resp.at.in_message;
  const OpcodeInfo& info = *packet.info;
  InMessage needed = InMessage::kNone;
  if (!info.starts_message()) {
    needed = info.operation == Operation::kSend ? InMessage::kSend : InMessage::kWrite;
  }
  return in == needed ? Step::kContinue
                      : invalid_request(engine, qp, packet, NakCause::kMessageOrder);
}

uint32_t needed_access(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return kAccessRemoteWrite;
    case Operation::kReadRequest:
      return kAccessRemoteRead;
    default:
      return 0;
  }
}

// What this queue pair lets a peer do (RC-RSP-12, RC-RSP-13).
Step check_op_valid(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  const bool supported = (info.operation == Operation::kSend && !info.has_ieth) ||
                         info.operation == Operation::kWrite ||
                         info.operation == Operation::kReadRequest;
  const uint32_t access = needed_access(info.operation);
  if (!supported || (qp.attr.qp_access_flags & access) != access) {
    return invalid_request(engine, qp, packet, NakCause::kOperation);
  }
  if (info.operation == Operation::kReadRequest && !read_replies::has_room(qp)) {
    return invalid_request(engine, qp, packet, NakCause::kTooManyReads);
  }
  return Step::kContinue;
}

// First and Middle are full, Last is not empty (RC-RSP-20); a WRITE has the bytes that it announced
// (RC-RSP-21).
Step check_length(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  if (info.operation == Operation::kReadRequest) {
    return packet.dma_length <= engine.config.max_msg_bytes
               ? Step::kContinue
               : invalid_request(engine, qp, packet, NakCause::kLength);
  }
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  bool right = info.ends_message() ? bytes <= qp.mtu : bytes == qp.mtu;
  if (info.position == Position::kLast) right = right && bytes != 0;
  if (info.operation == Operation::kWrite) {
    const uint32_t left = info.starts_message() ? packet.dma_length : qp.resp.at.write_left;
    right = right && (info.ends_message() ? bytes == left : bytes < left);
  }
  return right ? Step::kContinue : invalid_request(engine, qp, packet, NakCause::kLength);
}

void rnr_nak(Engine& engine, Qp& qp, Psn psn) {
  ++engine.stats.out_of_buffer;
  // Silent about what follows in this burst, until it comes again (RC-RSP-3).
  qp.resp.gap_naked = true;
  note_nak(engine, qp, psn, rnr_syndrome(static_cast<uint8_t>(qp.attr.min_rnr_timer)),
           NakCause::kNoReceive);
}

// A receive work request for a message that consumes one (RC-RSP-24).
Step check_resources(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  const bool needs_recv = info.operation == Operation::kSend
                              ? info.starts_message()
                              : info.operation == Operation::kWrite && info.has_imm;
  ResponderProgress& at = qp.resp.at;
  if (!needs_recv || at.recv_held) return Step::kContinue;
  switch (take_recv(engine, qp)) {
    case RecvQueue::Take::kTaken:
      return Step::kContinue;
    case RecvQueue::Take::kEmpty:
      rnr_nak(engine, qp, packet.psn);
      return Step::kDone;
    case RecvQueue::Take::kMalformed:
      ++engine.stats.malformed_wqe;
      refuse_recv(engine, qp, packet.psn, NakCode::kRemoteOperational, abi::WcStatus::kLocQpOp,
                  abi::VendorErr::kBadWqe, NakCause::kReceiveFaulty);
      return Step::kDone;
    case RecvQueue::Take::kBrokenRing:
      note_nak(engine, qp, packet.psn, nak_syndrome(NakCode::kRemoteOperational),
               NakCause::kReceiveFaulty);
      broken_ring(engine, qp);
      return Step::kDone;
  }
  return Step::kDone;
}

NakCause cause_of(MrError error) {
  switch (error) {
    case MrError::kNone:
      return NakCause::kNone;
    case MrError::kUnknownKey:
      return NakCause::kUnknownKey;
    case MrError::kWrongPd:
      return NakCause::kWrongPd;
    case MrError::kNoAccess:
      return NakCause::kNoAccess;
    case MrError::kOutOfRange:
      return NakCause::kOutOfRange;
  }
  return NakCause::kNone;
}

// Zero bytes need no valid address or key (RC-RSP-23).
Step check_rkey(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  if (!packet.info->has_reth || packet.dma_length == 0) return Step::kContinue;
  Translation where;
  const MrError error = engine.mrs.translate(packet.rkey, qp.pd, packet.va, packet.dma_length,
                                             needed_access(packet.info->operation), where);
  if (error == MrError::kNone) return Step::kContinue;
  refuse(engine, qp, packet.psn, NakCode::kRemoteAccess, cause_of(error));
  return Step::kDone;
}

// Nothing that is stored may overtake the data of a READ accepted before it.
Step finish_reads_before(Engine& engine, Qp& qp) {
  uint32_t sent = 0;
  if (!read_replies::unanswered(qp)) return Step::kContinue;
  (void)read_replies::send(engine, qp, UINT32_MAX, sent);
  engine.verdict = {.kind = RxVerdict::Kind::kRefused, .nak = NakCause::kBehindRead};
  if (qp.state == QpState::kErr) return Step::kDone;  // the memory to be read is gone
  if (!read_replies::unanswered(qp)) return Step::kContinue;
  // The sink is full. Forget the packet, and ask for it again when the READ is answered.
  qp.resp.blocked = true;
  qp.resp.gap_naked = true;
  engine.activate(qp);
  return Step::kDone;
}

Step execute_send(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  ResponderProgress& at = qp.resp.at;
  if (packet.info->starts_message()) at.offset = 0;
  if (at.offset + packet.payload.size() > at.recv.length) {
    refuse_recv(engine, qp, packet.psn, NakCode::kInvalidRequest, abi::WcStatus::kLocLen,
                abi::VendorErr::kRecvTooShort, NakCause::kReceiveTooShort);
    return Step::kDone;
  }
  const CopyResult copy = scatter_to_sges(engine, {&qp, false, packet.psn}, recv_pd(qp),
                                          recv_sges(qp), at.offset, packet.payload);
  if (copy.kind == CopyResult::Kind::kLater) return Step::kDone;
  if (!copy.ok()) {
    refuse_recv(engine, qp, packet.psn, NakCode::kRemoteOperational, abi::WcStatus::kLocProt,
                copy.vendor, NakCause::kReceiveFaulty);
    return Step::kDone;
  }
  at.offset += packet.payload.size();
  at.in_message = packet.info->ends_message() ? InMessage::kNone : InMessage::kSend;
  return Step::kContinue;
}

Step execute_write(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  ResponderProgress& at = qp.resp.at;
  const auto bytes = static_cast<uint32_t>(packet.payload.size());
  if (packet.info->starts_message()) {
    at.write_va = packet.va;
    at.write_rkey = packet.rkey;
    at.write_left = at.write_total = packet.dma_length;
  }
  if (bytes != 0) {
    Translation where;
    // Again for each packet: the region may be gone since the first one.
    const MrError error =
        engine.mrs.translate(at.write_rkey, qp.pd, at.write_va, bytes, kAccessRemoteWrite, where);
    if (error != MrError::kNone) {
      refuse(engine, qp, packet.psn, NakCode::kRemoteAccess, cause_of(error));
      return Step::kDone;
    }
    if (!store(engine, {&qp, false, packet.psn}, where, packet.payload)) return Step::kDone;
  }
  at.write_va += bytes;
  at.write_left -= bytes;
  at.in_message = packet.info->ends_message() ? InMessage::kNone : InMessage::kWrite;
  return Step::kContinue;
}

void count_request(DeviceStats& stats, const OpcodeInfo& info) {
  if (!info.starts_message()) return;
  if (info.operation == Operation::kSend) ++stats.rx_send_requests;
  if (info.operation == Operation::kWrite) ++stats.rx_write_requests;
  if (info.operation == Operation::kReadRequest) ++stats.rx_read_requests;
}

// Ends a SEND or WRITE message: data in place first, then MSN, then the receive completion.
Step complete(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  const OpcodeInfo& info = *packet.info;
  if (!info.ends_message()) return Step::kContinue;
  if (flush_placement(engine) == &qp || qp.state == QpState::kErr) return Step::kDone;
  qp.resp.msn = (qp.resp.msn + 1) & Psn::kMask;
  ResponderProgress& at = qp.resp.at;
  if (info.operation == Operation::kWrite && !info.has_imm) return Step::kContinue;
  Received received;
  received.imm_wire = packet.imm_wire;
  received.has_imm = info.has_imm;
  received.solicited = packet.solicited;
  received.src_qpn = qp.attr.dest_qp_num;
  if (info.operation == Operation::kWrite) {
    received.opcode = abi::WcOpcode::kRecvWriteImm;
    received.byte_len = at.write_total;
  } else {
    received.byte_len = static_cast<uint32_t>(at.offset);
  }
  complete_recv(engine, qp, received);
  return Step::kContinue;
}

void execute(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  if (packet.info->operation == Operation::kReadRequest) {
    count_request(engine.stats, *packet.info);
    read_replies::accept(qp, packet);
    engine.verdict = {.kind = RxVerdict::Kind::kReadAccepted};
    engine.activate(qp);
    return;
  }
  // The answer to a READ must be taken before anything behind it is stored.
  if (finish_reads_before(engine, qp) == Step::kDone) return;
  const Step step = packet.info->operation == Operation::kSend ? execute_send(engine, qp, packet)
                                                               : execute_write(engine, qp, packet);
  if (step == Step::kDone || qp.state == QpState::kErr) return;
  if (complete(engine, qp, packet) == Step::kDone) return;
  count_request(engine.stats, *packet.info);
  engine.verdict = {.kind = RxVerdict::Kind::kExecuted};
  ++qp.resp.at.epsn;
  if (packet.ack_req) note_ack(engine, qp, packet.psn);
}

void note_established(Engine& engine, Qp& qp) {
  if (qp.state != QpState::kRtr || qp.resp.comm_est) return;
  qp.resp.comm_est = true;
  engine.async_event(qp, AsyncEventType::kCommEst);
}

bool send_answer(Engine& engine, Qp& qp, Psn psn, uint8_t syndrome, const TxNote& note) {
  wire::PacketSpec spec = engine.packet(qp, Opcode::kAcknowledge, psn);
  spec.syndrome = syndrome;
  spec.msn = qp.resp.msn;
  if (!engine.frames.open(*engine.sink, spec, note)) return false;
  engine.frames.commit(*engine.sink, engine.stats);
  return true;
}

Turn send_ack(Engine& engine, Qp& qp, uint32_t& sent) {
  const TxNote note{.kind = TxNote::Kind::kAck};
  if (!send_answer(engine, qp, qp.resp.ack_psn, kAckNoCredits, note)) return Turn::kSinkFull;
  qp.resp.ack_pending = false;
  ++engine.stats.acks_sent;
  ++sent;
  return Turn::kMore;
}

Turn send_nak(Engine& engine, Qp& qp, uint32_t& sent) {
  // The packet missed when the gap was seen may have come since: the one behind it was dropped, and
  // is asked for, once as well (RC-RSP-1).
  if (qp.resp.nak_syndrome == nak_syndrome(NakCode::kPsnSequence)) {
    qp.resp.nak_psn = qp.resp.at.epsn;
    qp.resp.gap_naked = true;
  }
  const TxNote note{.kind = TxNote::Kind::kNak, .nak = qp.resp.nak_cause};
  if (!send_answer(engine, qp, qp.resp.nak_psn, qp.resp.nak_syndrome, note)) {
    return Turn::kSinkFull;
  }
  qp.resp.nak_pending = false;
  if (syndrome_kind(qp.resp.nak_syndrome) == SyndromeKind::kNak) ++engine.stats.naks_sent;
  ++sent;
  return Turn::kMore;
}

}  // namespace

void on_request(Engine& engine, Qp& qp, const ParsedPacket& packet) {
  if (!qp.takes_requests()) return engine.drop(DropReason::kQpState);
  note_established(engine, qp);
  if (check_psn(engine, qp, packet) == Step::kDone) return;
  qp.resp.gap_naked = false;
  // An RNR NAK that has not left yet is about this packet, which has come again.
  if (syndrome_kind(qp.resp.nak_syndrome) == SyndromeKind::kRnrNak) qp.resp.nak_pending = false;
  if (check_op_sequence(engine, qp, packet) == Step::kDone) return;
  if (check_op_valid(engine, qp, packet) == Step::kDone) return;
  if (check_length(engine, qp, packet) == Step::kDone) return;
  if (check_resources(engine, qp, packet) == Step::kDone) return;
  if (check_rkey(engine, qp, packet) == Step::kDone) return;
  execute(engine, qp, packet);
}

Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent) {
  ResponderState& resp = qp.resp;
  Turn turn = Turn::kMore;
  // An ACK for what came before the first unanswered READ need not wait for its data.
  if (resp.ack_pending && !resp.nak_pending &&
      read_replies::acks_before_pending(qp, resp.ack_psn)) {
    turn = send_ack(engine, qp, sent);
    if (turn != Turn::kMore) return turn;
  }
  if (read_replies::pending(qp)) {
    turn = read_replies::send(engine, qp, budget, sent);
    if (read_replies::pending(qp)) return turn;
  }
  if (resp.blocked) {
    resp.blocked = false;
    note_nak(engine, qp, resp.at.epsn, nak_syndrome(NakCode::kPsnSequence), NakCause::kBehindRead);
  }
  // A NAK acknowledges all before its PSN.
  if (resp.nak_pending) {
    turn = send_nak(engine, qp, sent);
    if (turn == Turn::kMore && resp.ack_psn.before(resp.nak_psn)) resp.ack_pending = false;
    if (turn != Turn::kMore) return turn;
  }
  if (resp.ack_pending) {
    turn = send_ack(engine, qp, sent);
    if (turn != Turn::kMore) return turn;
  }
  return Turn::kIdle;
}

void on_store_failed(Engine& engine, Qp& qp, Psn psn, MemResult result) {
  if (qp.state == QpState::kErr) return;
  if (result == MemResult::kLater) {
    // As if no receive had been there: the peer waits a little and sends from here on again. (A
    // silent drop would cost it its timeout and one of its retries each time.)
    engine.stats.drop(DropReason::kMemoryLater);
    // A receive taken since then stays with the message, which comes again.
    qp.resp.checkpoint.recv_held = qp.resp.at.recv_held;
    qp.resp.checkpoint.recv = qp.resp.at.recv;
    qp.resp.at = qp.resp.checkpoint;
    qp.resp.gap_naked = true;
    qp.resp.ack_pending = false;  // the NAK acknowledges what is before
    note_nak(engine, qp, qp.resp.at.epsn, rnr_syndrome(static_cast<uint8_t>(qp.attr.min_rnr_timer)),
             NakCause::kMemoryNotReady);
    return;
  }
  qp.resp.ack_pending = false;
  // The peer sees a process that ended as it sees a host that is gone, whatever the end met first:
  // no answer.
  if (result == MemResult::kGone) {
    engine.verdict = {.kind = RxVerdict::Kind::kNoAnswer};
    return enter_error(engine, qp);
  }
  if (qp.resp.at.recv_held) {
    refuse_recv(engine, qp, psn, NakCode::kRemoteOperational, abi::WcStatus::kLocProt,
                abi::VendorErr::kLocalFault, NakCause::kMemoryFault);
  } else {
    refuse(engine, qp, psn, NakCode::kRemoteAccess, NakCause::kMemoryFault);
  }
}

}  // namespace verbena::responder
