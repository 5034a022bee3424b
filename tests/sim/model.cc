#include "tests/sim/model.h"

#include <algorithm>

namespace verbena::sim {
namespace {

std::string text(const char* what, uint64_t have, uint64_t want) {
  return std::string(what) + " " + std::to_string(have) + ", not " + std::to_string(want);
}

std::string named(const OperationState& op, const char* what) {
  return "operation " + std::to_string(op.op->number) + ": " + what;
}

abi::WcOpcode wc_opcode(const Operation& op) {
  if (op.is_read()) return abi::WcOpcode::kRead;
  return op.is_write() ? abi::WcOpcode::kWrite : abi::WcOpcode::kSend;
}

bool holds(const Station& station, const Slice& slice, uint32_t pattern) {
  return station.memory.holds(station.va(slice.offset), slice.bytes, pattern);
}

// Nothing was stored behind the message.
bool blank_from(Station& station, const Slice& slice, uint32_t used) {
  const auto rest = station.memory.range(station.va(slice.offset + used), slice.bytes - used);
  return std::all_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte == kBlankByte; });
}

// A shared receive that a destroyed queue pair gave back may hold the start of a longer message.
bool may_be_given_back(const End& end) {
  return end.shares_receives() && std::any_of(end.world->ends.begin(), end.world->ends.end(),
                                              [](const End* other) { return other->gone; });
}

// The space of a GRH in a datagram that came over IPv4: its IP header in the last 20 bytes.
bool grh_right(std::span<const uint8_t> grh, const Station& from, const Station& to,
               uint32_t payload_bytes, bool has_imm) {
  const uint8_t* ip = grh.data() + kGrhBytes - 20;
  const auto word = [ip](uint32_t at) {
    return uint32_t{ip[at]} << 24 | uint32_t{ip[at + 1]} << 16 | uint32_t{ip[at + 2]} << 8 |
           ip[at + 3];
  };
  const uint32_t padded = (payload_bytes + 3) & ~3U;
  const uint32_t length = 20 + 8 + 12 + 8 + (has_imm ? 4 : 0) + padded + 4;
  return ip[0] == 0x45 && (word(0) & 0xFFFF) == length && ip[9] == 17 &&
         word(12) == from.device.config().gids[0].ipv4() &&
         word(16) == to.device.config().gids[0].ipv4();
}

}  // namespace

void reuse(Station& station, const Slice& slice, uint32_t pattern, Bytes& bytes) {
  if (bytes == Bytes::kReused) return;
  station.memory.fill(station.va(slice.offset), slice.bytes, reused(pattern));
  bytes = Bytes::kReused;
}

End* Model::find(const World& world, Qpn qpn) const {
  for (End* end : world.ends) {
    if (end->qp->qpn() == qpn) return end;
  }
  return nullptr;
}

// Its queue pair may have failed for another reason than one of its own requests.
bool Model::may_flush(const End& end) const {
  if (end.cut || end.world->faulted) return true;
  if (!end.is_rc()) return false;
  // A request of the peer that the responder refused.
  return std::any_of(end.peer->ops.begin(), end.peer->ops.begin() + end.peer->posted,
                     [](const OperationState& op) { return is_remote(op.op->flaw); });
}

// The peer is no longer there to answer, or the network loses much. A queue that overflows may
// take the same packet of each repetition.
bool Model::may_be_unanswered(const End& end) const {
  if (may_give_up_) return true;
  const auto& links = network_.links();
  if (std::any_of(links.begin(), links.end(),
                  [](const auto& link) { return link->stats().overflowed != 0; })) {
    return true;
  }
  return end.peer->gone || end.peer->world->station->state(*end.peer->qp) == QpState::kErr;
}

std::string Model::check(World& world, const Wc& wc) {
  End* end = find(world, wc.qpn);
  if (end == nullptr) return text("completion of queue pair", wc.qpn, 0);
  if (end->gone) return "completion of a destroyed queue pair";
  if (wc.status != abi::WcStatus::kSuccess) {
    ++(wc.recv ? world.recv_errors
               : world.send_errors)[static_cast<size_t>(wc.status) % World::kStatuses];
  }
  std::string wrong = wc.recv ? check_receive(*end, wc) : check_send(*end, wc);
  if (wc.status != abi::WcStatus::kSuccess) {
    end->broken = true;
    end->flushes = end->flushes || !wc.recv;
  }
  if (!wrong.empty()) wrong = "QP " + std::to_string(wc.qpn) + ": " + wrong;
  return wrong;
}

// ---- Sends ----

// The operation is known to have been done.
std::string Model::retire(End& end, OperationState& op) {
  Station& here = *end.world->station;
  const Operation& o = *op.op;
  if (o.flaw != Flaw::kNone) return named(op, "must not succeed");
  op.succeeded = true;
  if (o.is_read()) {
    if (!holds(here, o.from, o.pattern())) return named(op, "READ completed without its bytes");
    op.from = Bytes::kData;
  }
  reuse(here, o.from, o.pattern(), op.from);
  if (!end.is_rc()) return {};
  Station& there = *end.peer->world->station;
  if (o.is_write() && op.remote != Bytes::kReused && !holds(there, o.remote, o.pattern())) {
    return named(op, "WRITE completed without its bytes");
  }
  if (o.read_back) {
    op.remote = Bytes::kData;
  } else if (!o.is_send()) {
    reuse(there, o.remote, o.pattern(), (o.reads_back ? *(&op - 1) : op).remote);
  }
  return {};
}

std::string Model::check_send_error(const End& end, const OperationState& op,
                                    abi::WcStatus status) {
  const auto wrong = [&] {
    return named(op, "status ") + std::to_string(static_cast<uint32_t>(status)) +
           " without a cause";
  };
  if (end.broken)
    return status == abi::WcStatus::kWrFlush ? "" : named(op, "an error behind an error");
  if (op.op->flaw != Flaw::kNone && status == status_of(op.op->flaw)) {
    end.world->bad_handles += op.op->flaw == Flaw::kBadHandle;
    return {};
  }
  const bool here = end.world->faulted;
  const bool there = end.is_rc() && end.peer->world->faulted;
  switch (status) {
    case abi::WcStatus::kWrFlush:
      return may_flush(end) ? "" : wrong();
    case abi::WcStatus::kRetryExc:
      return end.is_rc() && may_be_unanswered(end) ? "" : wrong();
    case abi::WcStatus::kRnrRetryExc:
      return end.is_rc() && end.plan->connect.rnr_retry != 7 ? "" : wrong();
    case abi::WcStatus::kLocProt:
      return here ? "" : wrong();
    case abi::WcStatus::kRemOp:
      return there && op.op->consumes_receive() ? "" : wrong();
    case abi::WcStatus::kRemAccess:
      return there && !op.op->is_send() ? "" : wrong();
    default:
      return wrong();
  }
}

std::string Model::check_send(End& end, const Wc& wc) {
  // Unsignaled operations before it are retired with it.
  while (end.completed != wc.wqe_index) {
    if (end.completed == end.posted)
      return text("completion of what was not posted:", wc.wqe_index, 0);
    OperationState& op = end.ops[end.completed];
    if (end.plan->sig_all || op.op->is_signaled()) return named(op, "completion left out");
    // What was flushed has an entry of its own, signaled or not.
    if (end.flushes) return named(op, "not flushed");
    if (const auto wrong = retire(end, op); !wrong.empty()) return wrong;
    ++end.completed;
  }
  if (end.completed == end.posted) return "a completion too many";
  OperationState& op = end.ops[end.completed++];
  if (wc.status != abi::WcStatus::kSuccess) {
    if (op.op->is_read()) {
      op.from = Bytes::kUnknown;
    } else {
      reuse(*end.world->station, op.op->from, op.op->pattern(), op.from);
    }
    return check_send_error(end, op, wc.status);
  }
  if (end.broken) return named(op, "success behind an error");
  if (!end.plan->sig_all && !op.op->is_signaled()) {
    return named(op, "unsignaled, but completed");
  }
  if (wc.opcode != wc_opcode(*op.op)) return named(op, "wrong opcode");
  if (wc.byte_len != op.op->bytes) return text("byte_len", wc.byte_len, op.op->bytes);
  return retire(end, op);
}

std::string Model::retire_silent(End& end) {
  while (end.broken && !end.flushes && end.completed != end.posted) {
    OperationState& op = end.ops[end.completed];
    if (end.plan->sig_all || op.op->is_signaled()) return named(op, "never completed");
    if (const auto wrong = retire(end, op); !wrong.empty()) return wrong;
    ++end.completed;
  }
  return {};
}

// ---- Receives ----

std::string Model::check_receive_error(End& end, const Wc& wc, OperationState* op) {
  const auto wrong = [&] {
    return "receive status " + std::to_string(static_cast<uint32_t>(wc.status)) +
           " without a cause";
  };
  if (wc.status == abi::WcStatus::kWrFlush) return end.broken || may_flush(end) ? "" : wrong();
  if (end.broken) return "a receive error behind an error";
  const Flaw flaw = op != nullptr ? op->op->flaw : Flaw::kNone;
  switch (wc.status) {
    case abi::WcStatus::kLocLen:
      return flaw == Flaw::kShortReceive ? "" : wrong();
    case abi::WcStatus::kLocProt:
      return flaw == Flaw::kBadReceive || end.world->faulted ? "" : wrong();
    case abi::WcStatus::kRemAccess:
      return flaw == Flaw::kBadRkey || flaw == Flaw::kNoAccess || end.world->faulted ? "" : wrong();
    default:
      return wrong();
  }
}

std::string Model::check_message(End& end, const Wc& wc, Buffer* buffer, OperationState& op) {
  const Operation& o = *op.op;
  Station& here = *end.world->station;
  if (o.flaw != Flaw::kNone) return named(op, "must not be received");
  op.received = true;
  if (wc.byte_len != o.bytes) return text("received bytes", wc.byte_len, o.bytes);
  if (((wc.flags & abi::kWcWithImm) != 0) != o.has_imm()) return named(op, "wrong immediate flag");
  if (o.has_imm() && wc.imm_wire != o.imm_wire) return named(op, "wrong immediate");
  const auto opcode = o.is_write() ? abi::WcOpcode::kRecvWriteImm : abi::WcOpcode::kRecv;
  if (wc.opcode != opcode) return named(op, "wrong opcode of its receive");
  const Slice& slice = buffer != nullptr ? buffer->slice : o.receive;
  const uint32_t used = o.is_send() ? o.bytes : 0;
  if (!holds(here, {slice.offset, used}, o.pattern())) return named(op, "wrong bytes received");
  if (!may_be_given_back(end) && !blank_from(here, slice, used)) {
    return named(op, "bytes stored behind the message");
  }
  // Where the sender's completion was taken first, it was looked at then.
  if (o.is_write() && op.remote != Bytes::kReused) {
    if (!holds(here, o.remote, o.pattern())) return named(op, "immediate before the data");
    reuse(here, o.remote, o.pattern(), op.remote);
  }
  if (buffer == nullptr) {
    reuse(here, slice, o.pattern(), op.receive);
  } else {
    buffer->pattern = o.pattern();
    reuse(here, slice, o.pattern(), buffer->bytes);
  }
  return {};
}

// A datagram is known by its bytes: which of the sender's it is.
std::string Model::check_datagram(End& end, const Wc& wc, Buffer& buffer) {
  Station& here = *end.world->station;
  if (!(wc.flags & abi::kWcGrh)) return "a datagram without a GRH";
  if (wc.byte_len < kGrhBytes || wc.byte_len > buffer.slice.bytes) {
    return text("datagram of bytes", wc.byte_len, buffer.slice.bytes);
  }
  const uint32_t bytes = wc.byte_len - kGrhBytes;
  const bool has_imm = (wc.flags & abi::kWcWithImm) != 0;
  const Slice payload{buffer.slice.offset + kGrhBytes, bytes};
  OperationState* found = nullptr;
  End* from = nullptr;
  for (const auto& sender : ends_) {
    if (sender == nullptr || sender->is_rc() || sender->qp->qpn() != wc.src_qpn) continue;
    from = sender.get();
    for (uint32_t i = 0; i < from->posted; ++i) {
      OperationState& op = from->ops[i];
      const Operation& o = *op.op;
      if (ends_[o.to].get() != &end || o.flaw != Flaw::kNone || o.bytes != bytes ||
          o.has_imm() != has_imm || (has_imm && o.imm_wire != wc.imm_wire) ||
          !holds(here, payload, o.pattern())) {
        continue;
      }
      if (found == nullptr || op.deliveries < found->deliveries) found = &op;
    }
  }
  if (found == nullptr) return "a datagram that nobody sent";
  // Each of the two links may copy it.
  if (++found->deliveries > (duplicates_ ? 4 : 1)) return named(*found, "a datagram too many");
  found->received = true;
  if (!may_be_given_back(end) && !blank_from(here, buffer.slice, wc.byte_len)) {
    return named(*found, "bytes stored behind the datagram");
  }
  const auto grh = here.memory.range(here.va(buffer.slice.offset), kGrhBytes);
  if (!grh_right(grh, *from->world->station, here, bytes, has_imm))
    return named(*found, "wrong GRH");
  ++end.datagrams;
  buffer.pattern = found->op->pattern();
  reuse(here, buffer.slice, buffer.pattern, buffer.bytes);
  return {};
}

std::string Model::check_receive(End& end, const Wc& wc) {
  Buffer* buffer = nullptr;
  OperationState* op = end.arriving.empty() ? nullptr : end.arriving.front();
  if (end.shares_receives()) {
    std::vector<Buffer>& shared = end.world->shared;
    if (!wc.shared) return "not a receive of the shared queue";
    if (wc.wqe_index >= shared.size() || !shared[wc.wqe_index].posted) {
      return text("shared receive not posted:", wc.wqe_index, shared.size());
    }
    buffer = &shared[wc.wqe_index];
  } else {
    if (end.receives_completed == end.receives_posted) return "a receive too many";
    if (wc.wqe_index != end.receives_completed) {
      return text("receive", wc.wqe_index, end.receives_completed);
    }
    if (!end.is_rc()) buffer = &end.buffers[wc.wqe_index];
    ++end.receives_completed;
  }
  if (buffer != nullptr) {
    if (buffer->completed) return text("receive completed twice:", wc.wqe_index, 0);
    buffer->completed = true;
  }
  OperationState* own = nullptr;
  if (end.is_rc() && !end.shares_receives()) {
    own = end.receives.front();
    end.receives.pop_front();
  }
  if (wc.status != abi::WcStatus::kSuccess) {
    if (buffer != nullptr) buffer->bytes = Bytes::kUnknown;
    if (own != nullptr) own->receive = Bytes::kUnknown;
    return check_receive_error(end, wc, op);
  }
  if (end.broken) return "a receive behind an error";
  if (!end.is_rc()) return check_datagram(end, wc, *buffer);
  if (op == nullptr) return "received what was not sent";
  end.arriving.pop_front();
  return check_message(end, wc, buffer, *op);
}

}  // namespace verbena::sim
