#include "stack/qp/read_replies.h"

#include <algorithm>

#include "stack/qp/completion.h"
#include "stack/wire/syndrome.h"

namespace verbena::read_replies {
namespace {

uint32_t capacity(const Qp& qp) {
  return std::min(qp.attr.max_dest_rd_atomic, kMaxRdAtomic);
}

// The i-th oldest READ remembered.
uint32_t slot(const Qp& qp, uint32_t i) {
  return (qp.resp.read_head + kMaxRdAtomic - qp.resp.read_valid + i) % kMaxRdAtomic;
}

const ReadResource* oldest_active(const Qp& qp) {
  for (uint32_t i = 0; i < qp.resp.read_valid; ++i) {
    const ReadResource& read = qp.resp.reads[slot(qp, i)];
    if (read.active()) return &read;
  }
  return nullptr;
}

Opcode response_opcode(const ReadResource& read, uint32_t packet) {
  const bool first = packet == read.start_packet;
  const bool last = packet == read.packets - 1;
  if (first && last) return Opcode::kReadResponseOnly;
  if (first) return Opcode::kReadResponseFirst;
  return last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle;
}

wire::PacketSpec response_packet(Engine& engine, const Qp& qp, const ReadResource& read,
                                 uint32_t packet) {
  wire::PacketSpec spec = engine.packet(qp, response_opcode(read, packet), read.first_psn + packet);
  spec.payload_bytes = std::min(qp.mtu, read.length - packet * qp.mtu);
  spec.syndrome = kAckNoCredits;
  spec.msn = read.msn;
  return spec;
}

TxNote response_note(const ReadResource& read, uint32_t packet) {
  return {.kind = TxNote::Kind::kReadResponse,
          .repeated = read.repeated,
          .part = packet + 1,
          .parts = read.packets};
}

void note_nak(Qp& qp, Psn psn, NakCause cause) {
  qp.resp.nak_pending = true;
  qp.resp.nak_psn = psn;
  qp.resp.nak_syndrome = nak_syndrome(NakCode::kRemoteAccess);
  qp.resp.nak_cause = cause;
}

// A repeat of a READ whose region is gone, or the memory behind it (RC-RSP-35). It may be a ghost:
// a network's copy of a request whose answer has arrived, so that the application was free to let
// the region go. So the peer is told, unless it is to be told something else, and no more happens:
// a requester that still waits for the data ends the connection, the other one drops the NAK.
void refuse_repeat(Engine& engine, Qp& qp, ReadResource& read, NakCause cause) {
  ++engine.stats.resp_remote_access_errors;
  if (!qp.resp.nak_pending) note_nak(qp, read.first_psn + read.next_packet, cause);
  read.next_packet = read.packets;
}

// The same of a READ that was never answered in full.
void refuse(Engine& engine, Qp& qp, const ReadResource& read, NakCause cause) {
  ++engine.stats.resp_remote_access_errors;
  note_nak(qp, read.first_psn + read.next_packet, cause);
  qp.resp.ack_pending = false;
  qp.resp.read_valid = 0;
  if (qp.state == QpState::kErr) return;
  engine.async_event(qp, AsyncEventType::kQpAccessErr);
  enter_error(engine, qp);
}

Turn send_some(Engine& engine, Qp& qp, ReadResource& read, uint32_t budget, uint32_t& sent) {
  FrameBatch& frames = engine.frames;
  const uint32_t wanted =
      std::min({read.packets - read.next_packet, budget - sent, FrameBatch::kMaxFrames});
  for (uint32_t i = 0; i < wanted; ++i) {
    const uint32_t packet = read.next_packet + i;
    if (!frames.open(*engine.sink, response_packet(engine, qp, read, packet),
                     response_note(read, packet))) {
      break;
    }
  }
  const uint32_t count = frames.count();
  if (count == 0) return Turn::kSinkFull;
  if (read.length != 0) {
    const uint32_t offset = read.next_packet * qp.mtu;
    const uint32_t bytes = std::min(count * qp.mtu, read.length - offset);
    Translation where;
    MemResult result = MemResult::kFault;
    NakCause cause = NakCause::kRegionGone;
    if (engine.mrs.translate(read.rkey, qp.pd, read.va + offset, bytes, kAccessRemoteRead, where) ==
        MrError::kNone) {
      cause = NakCause::kMemoryFault;
      result = where.memory->read(where.va, frames.payloads());
    }
    if (result != MemResult::kDone) {
      frames.release(*engine.sink);
      if (result == MemResult::kLater) return Turn::kLater;
      if (result != MemResult::kGone && read.answered) {
        refuse_repeat(engine, qp, read, cause);
        return Turn::kMore;
      }
      if (result == MemResult::kGone) {
        enter_error(engine, qp);  // without a word, as responder::on_store_failed
      } else {
        refuse(engine, qp, read, cause);
      }
      return Turn::kIdle;
    }
  }
  frames.commit(*engine.sink, engine.stats);
  read.next_packet += count;
  read.answered = read.answered || !read.active();
  sent += count;
  return count < wanted ? Turn::kSinkFull : Turn::kMore;
}

}  // namespace

bool has_room(const Qp& qp) {
  const uint32_t cap = capacity(qp);
  if (cap == 0) return false;
  if (qp.resp.read_valid < cap) return true;
  // One that is only being answered again gives way: a peer that keeps to the limit has its data.
  return qp.resp.reads[slot(qp, qp.resp.read_valid - cap)].answered;
}

void accept(Qp& qp, const wire::ParsedPacket& packet) {
  ResponderState& resp = qp.resp;
  resp.msn = (resp.msn + 1) & Psn::kMask;
  ReadResource read;
  read.first_psn = packet.psn;
  read.packets = std::max(1U, (packet.dma_length + qp.mtu - 1) / qp.mtu);
  read.va = packet.va;
  read.length = packet.dma_length;
  read.rkey = packet.rkey;
  read.msn = resp.msn;
  resp.reads[resp.read_head] = read;
  resp.read_head = (resp.read_head + 1) % kMaxRdAtomic;
  resp.read_valid = std::min(resp.read_valid + 1, capacity(qp));
  resp.at.epsn += read.packets;
}

bool replay(Qp& qp, const wire::ParsedPacket& packet) {
  for (uint32_t i = 0; i < qp.resp.read_valid; ++i) {
    ReadResource& read = qp.resp.reads[slot(qp, i)];
    const int32_t skipped = packet.psn - read.first_psn;
    if (skipped < 0 || static_cast<uint32_t>(skipped) >= read.packets) continue;
    const auto packets = static_cast<uint32_t>(skipped);
    const uint32_t offset = packets * qp.mtu;
    if (packet.rkey != read.rkey && read.length != 0) return false;
    if (packet.va != read.va + offset || packet.dma_length != read.length - offset) return false;
    // Restart, also when its answer is just being sent (RC-RSP-34).
    read.start_packet = read.next_packet = packets;
    read.repeated = true;
    return true;
  }
  return false;
}

bool pending(const Qp& qp) {
  return oldest_active(qp) != nullptr;
}

bool unanswered(const Qp& qp) {
  for (uint32_t i = 0; i < qp.resp.read_valid; ++i) {
    const ReadResource& read = qp.resp.reads[slot(qp, i)];
    if (read.active() && !read.answered) return true;
  }
  return false;
}

bool acks_before_pending(const Qp& qp, Psn psn) {
  const ReadResource* read = oldest_active(qp);
  return read == nullptr || psn.before(read->first_psn + read->next_packet);
}

Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent) {
  while (sent < budget) {
    auto* read = const_cast<ReadResource*>(oldest_active(qp));
    if (read == nullptr) return Turn::kIdle;
    const Turn turn = send_some(engine, qp, *read, budget, sent);
    if (turn != Turn::kMore) return turn;
  }
  return Turn::kMore;
}

}  // namespace verbena::read_replies
