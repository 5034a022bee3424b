#include "stack/qp/requester.h"

#include <algorithm>

#include "stack/mem/sg_copy.h"
#include "stack/qp/completion.h"
#include "stack/qp/gather.h"
#include "stack/qp/ud.h"
#include "stack/wire/syndrome.h"

namespace verbena::requester {
namespace {

// A requester never has more than half the PSN space outstanding (RC-PSN-2).
constexpr uint32_t kMaxOutstandingPsns = 0x7FFFFF;

bool index_before(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) < 0;
}

// Takes the next entry from the client's ring. False: there is none to be taken now.
bool fetch_next(Engine& engine, Qp& qp) {
  if (qp.state != QpState::kRts) return false;  // SQD starts nothing new
  SendQueue& sq = qp.sq;
  uint32_t tail;
  if (!sq.tail(tail)) {
    broken_ring(engine, qp);
    return false;
  }
  if (tail == sq.fetched) return false;
  const uint32_t index = sq.fetched;
  SendWr& wr = sq.at(index);
  const WqeCheck check = sq.fetch(wr);
  wr.first_psn = qp.req.next_psn;
  ++sq.fetched;
  const bool possible =
      qp.type == QpType::kUd ? wr.is_send() : !wr.is_read() || qp.attr.max_rd_atomic != 0;
  if (check != WqeCheck::kGood || !possible) {
    ++engine.stats.malformed_wqe;
    const auto status =
        check == WqeCheck::kTooLong ? abi::WcStatus::kLocLen : abi::WcStatus::kLocQpOp;
    fail_send_in_order(engine, qp, index, status, abi::VendorErr::kBadWqe);
    return false;
  }
  const uint32_t access = wr.is_read() ? uint32_t{kAccessLocalWrite} : 0;
  const CopyResult sges = check_sges(engine.mrs, qp.pd, sq.sges(index), access);
  if (!sges.ok()) {
    fail_send_in_order(engine, qp, index, abi::WcStatus::kLocProt, sges.vendor);
    return false;
  }
  wr.packets = qp.type == QpType::kUd ? 1 : std::max(1U, (wr.length + qp.mtu - 1) / qp.mtu);
  qp.req.next_psn += wr.packets;
  return true;
}

// Fences and the READ limit (RC-REQ-50, RC-REQ-52).
bool may_start(const Qp& qp, const SendWr& wr) {
  const RequesterState& req = qp.req;
  if (req.cursor_packet != 0) return true;
  if ((wr.flags & abi::kWrFence) && req.read_count != 0 &&
      index_before(req.oldest_read(), req.cursor)) {
    return false;
  }
  if (!wr.is_read() || wr.issued) return true;
  if (req.read_count >= qp.attr.max_rd_atomic) return false;
  return wr.packets <= kMaxOutstandingPsns - static_cast<uint32_t>(wr.first_psn - req.una);
}

TxNote request_note(const Qp& qp, Psn psn) {
  const bool again = psn.before(qp.req.sent);
  return {.kind = TxNote::Kind::kRequest,
          .resend = again ? qp.req.resend_cause : ResendCause::kNone};
}

void note_sent(Engine& engine, Qp& qp, Psn first, uint32_t packets, uint32_t psns) {
  const Psn end = first + psns;
  // A batch may begin with packets sent before and go on with new ones.
  const int32_t again = qp.req.sent - first;
  if (again > 0) engine.stats.retransmitted_pkts += std::min(static_cast<uint32_t>(again), packets);
  if (end.after(qp.req.sent)) qp.req.sent = end;
  qp.req.resend_due = false;
  if (qp.req.ack_deadline == kNever && qp.attr.timeout != 0) {
    qp.req.ack_deadline = engine.now + ack_timeout(static_cast<uint8_t>(qp.attr.timeout));
    engine.arm_timer(qp);
  }
}

void advance_cursor(Qp& qp) {
  ++qp.req.cursor;
  qp.req.cursor_packet = 0;
}

// A READ asks for what is still missing (RC-REQ-2).
Turn send_read(Engine& engine, Qp& qp, SendWr& wr, uint32_t& sent) {
  wire::PacketSpec spec = engine.packet(qp, Opcode::kReadRequest, wr.first_psn + wr.responses);
  const uint32_t offset = wr.responses * qp.mtu;
  spec.ack_req = true;
  spec.va = wr.remote_va + offset;
  spec.rkey = wr.rkey;
  spec.dma_length = wr.length - offset;
  if (!engine.frames.open(*engine.sink, spec, request_note(qp, spec.psn))) return Turn::kSinkFull;
  engine.frames.commit(*engine.sink, engine.stats);
  wr.restarted = wr.issued;
  if (!wr.issued) {
    wr.issued = true;
    qp.req.push_read(qp.req.cursor);
    qp.req.read_psns += wr.packets;
  }
  note_sent(engine, qp, spec.psn, 1, wr.packets - wr.responses);
  advance_cursor(qp);
  ++sent;
  return Turn::kMore;
}

Opcode request_opcode(const SendWr& wr, bool first, bool last) {
  const bool imm = wr.has_imm();
  if (wr.is_write()) {
    if (first && last) return imm ? Opcode::kWriteOnlyImm : Opcode::kWriteOnly;
    if (last) return imm ? Opcode::kWriteLastImm : Opcode::kWriteLast;
    return first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
  }
  if (first && last) return imm ? Opcode::kSendOnlyImm : Opcode::kSendOnly;
  if (last) return imm ? Opcode::kSendLastImm : Opcode::kSendLast;
  return first ? Opcode::kSendFirst : Opcode::kSendMiddle;
}

wire::PacketSpec request_packet(Engine& engine, const Qp& qp, const SendWr& wr, uint32_t packet) {
  const bool last = packet == wr.packets - 1;
  wire::PacketSpec spec =
      engine.packet(qp, request_opcode(wr, packet == 0, last), wr.first_psn + packet);
  spec.payload_bytes = std::min(qp.mtu, wr.length - packet * qp.mtu);
  spec.va = wr.remote_va;
  spec.rkey = wr.rkey;
  spec.dma_length = wr.length;
  spec.imm_wire = wr.imm_wire;
  spec.ack_req = last || (packet + 1) % engine.config.ack_every_packets == 0;
  spec.solicited = last && (wr.flags & abi::kWrSolicited) && wr.opcode != abi::WrOpcode::kWrite;
  return spec;
}

// Packets in flight, not counting the responses that READs wait for.
uint32_t in_flight(const Qp& qp, Psn psn) {
  const int32_t psns = psn - qp.req.una - static_cast<int32_t>(qp.req.read_psns);
  return psns > 0 ? static_cast<uint32_t>(psns) : 0;
}

// SEND and WRITE: as many packets of the message as budget, window and sink allow, with one gather.
Turn send_packets(Engine& engine, Qp& qp, SendWr& wr, uint32_t budget, uint32_t& sent) {
  FrameBatch& frames = engine.frames;
  const uint32_t start = qp.req.cursor_packet;
  const Psn first = wr.first_psn + start;
  const uint32_t window = engine.config.window_packets;
  const uint32_t flying = in_flight(qp, first);
  // READs before this one may take nearly all of the PSNs that may be outstanding.
  const uint32_t psns = kMaxOutstandingPsns - static_cast<uint32_t>(first - qp.req.una);
  if (flying >= window || psns == 0) return Turn::kIdle;
  const uint32_t wanted =
      std::min({wr.packets - start, budget - sent, window - flying, psns, FrameBatch::kMaxFrames});
  for (uint32_t i = 0; i < wanted; ++i) {
    wire::PacketSpec spec = request_packet(engine, qp, wr, start + i);
    // Nothing more may be sent behind the last packet of the window: ask for the ACK that opens it.
    if (flying + i + 1 == window) spec.ack_req = true;
    if (!frames.open(*engine.sink, spec, request_note(qp, spec.psn))) break;
  }
  const uint32_t count = frames.count();
  if (count == 0) return Turn::kSinkFull;
  const uint64_t offset = uint64_t{start} * qp.mtu;
  const CopyResult copy = gather_message(engine, qp, wr, qp.req.cursor, offset, frames.payloads());
  if (!copy.ok()) {
    frames.release(*engine.sink);
    if (copy.kind == CopyResult::Kind::kLater) return Turn::kLater;
    fail_send_in_order(engine, qp, qp.req.cursor, abi::WcStatus::kLocProt, copy.vendor);
    return Turn::kIdle;
  }
  frames.commit(*engine.sink, engine.stats);
  note_sent(engine, qp, first, count, count);
  sent += count;
  qp.req.cursor_packet += count;
  if (qp.req.cursor_packet == wr.packets) advance_cursor(qp);
  return count < wanted ? Turn::kSinkFull : Turn::kMore;
}

Turn send_one(Engine& engine, Qp& qp, SendWr& wr, uint32_t budget, uint32_t& sent) {
  if (qp.type == QpType::kUd) return ud::send_datagram(engine, qp, sent);
  if (wr.is_read()) return send_read(engine, qp, wr, sent);
  return send_packets(engine, qp, wr, budget, sent);
}

}  // namespace

Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent) {
  RequesterState& req = qp.req;
  while (sent < budget) {
    if (!qp.sends_requests() || req.hold_until != 0) return Turn::kIdle;
    if (req.cursor == qp.sq.fetched && !fetch_next(engine, qp)) return Turn::kIdle;
    if (req.failed && req.cursor == req.failed_index) return Turn::kIdle;
    SendWr& wr = qp.sq.at(req.cursor);
    if (!may_start(qp, wr)) return Turn::kIdle;
    const Turn turn = send_one(engine, qp, wr, budget, sent);
    if (turn != Turn::kMore) return turn;
  }
  return Turn::kMore;
}

void go_back(Engine& engine, Qp& qp, Psn psn, ResendCause cause) {
  uint32_t index = qp.sq.head;
  while (index != qp.sq.fetched && qp.sq.at(index).packets != 0 &&
         psn.after(qp.sq.at(index).last_psn())) {
    ++index;
  }
  qp.req.cursor = index;
  qp.req.cursor_packet = 0;
  qp.req.resend_due = true;
  qp.req.resend_cause = cause;
  if (index != qp.sq.fetched) {
    const SendWr& wr = qp.sq.at(index);
    if (!wr.is_read() && psn.after(wr.first_psn)) {
      qp.req.cursor_packet = static_cast<uint32_t>(psn - wr.first_psn);
    }
  }
  engine.activate(qp);
}

bool drained(const Qp& qp) {
  return qp.sq.empty();
}

}  // namespace verbena::requester
