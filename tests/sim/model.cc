#include "tests/sim/model.h"

namespace verbena::sim {
namespace {

std::string text(const char* what, uint64_t have, uint64_t want) {
  return std::string(what) + " " + std::to_string(have) + ", not " + std::to_string(want);
}

abi::WcOpcode wc_opcode(const Operation& op) {
  if (op.is_read()) return abi::WcOpcode::kRead;
  return op.is_write() ? abi::WcOpcode::kWrite : abi::WcOpcode::kSend;
}

// The bytes of an operation that was reported as done.
std::string check_bytes(const End& end, const Operation& op) {
  if (op.is_read() && !end.station->memory.holds(end.station->va(op.local), op.bytes, op.seed)) {
    return "READ completed without its bytes";
  }
  const Station& there = *end.peer->station;
  if (op.is_write() && !there.memory.holds(there.va(op.remote), op.bytes, op.seed)) {
    return "WRITE completed without its bytes";
  }
  return {};
}

std::string check_failed_status(const End& end, const Operation& op, const Wc& wc, bool lossy) {
  if (end.failed) {
    return wc.status == abi::WcStatus::kWrFlush ? "" : "an error behind an error";
  }
  if (!end.may_fail) return text("unexpected status", static_cast<uint64_t>(wc.status), 0);
  if (op.bad_key && wc.status == abi::WcStatus::kRemAccess) return {};
  // The answer got lost, or the peer is gone.
  const bool unanswered =
      wc.status == abi::WcStatus::kRetryExc && (lossy || !op.bad_key || end.peer->may_flush);
  const bool flushed = wc.status == abi::WcStatus::kWrFlush && end.may_flush;
  return unanswered || flushed ? "" : text("wrong error", static_cast<uint64_t>(wc.status), 10);
}

std::string check_send(End& end, const Wc& wc, bool lossy) {
  // Unsignaled operations before it are retired with it.
  while (end.completed != wc.wqe_index) {
    if (end.posted.empty()) return text("completion of what was not posted:", wc.wqe_index, 0);
    if (end.posted.front().flags & abi::kWrSignaled) return "a completion was left out";
    // What was flushed has an entry of its own, signaled or not.
    if (end.failed) return "an unsignaled operation was not flushed";
    if (end.posted.front().bad_key) return "an operation with a bad key succeeded";
    if (const auto wrong = check_bytes(end, end.posted.front()); !wrong.empty()) return wrong;
    end.posted.pop_front();
    ++end.completed;
  }
  if (end.posted.empty()) return "a completion too many";
  const Operation op = end.posted.front();
  end.posted.pop_front();
  ++end.completed;
  if (wc.status != abi::WcStatus::kSuccess) {
    const std::string wrong = check_failed_status(end, op, wc, lossy);
    end.failed = true;
    return wrong;
  }
  if (end.failed) return "success behind an error";
  if (op.bad_key) return "an operation with a bad key succeeded";
  if (!(op.flags & abi::kWrSignaled)) return "an unsignaled operation has a completion";
  if (wc.opcode != wc_opcode(op)) return "wrong opcode";
  if (wc.byte_len != op.bytes) return text("byte_len", wc.byte_len, op.bytes);
  return check_bytes(end, op);
}

std::string check_recv(End& end, const Wc& wc) {
  if (end.recvs.empty()) return "a receive too many";
  if (wc.wqe_index != end.received) return text("receive", wc.wqe_index, end.received);
  const Receive recv = end.recvs.front();
  end.recvs.pop_front();
  ++end.received;
  if (wc.status != abi::WcStatus::kSuccess) {
    const bool right = end.may_fail && (wc.status == abi::WcStatus::kWrFlush ||
                                        (!end.failed && wc.status == abi::WcStatus::kRemAccess));
    return right ? "" : text("receive status", static_cast<uint64_t>(wc.status), 5);
  }
  if (end.arriving.empty()) return "received what was not sent";
  const Operation op = end.arriving.front();
  end.arriving.pop_front();
  if (wc.byte_len != op.bytes) return text("received bytes", wc.byte_len, op.bytes);
  const bool imm = op.opcode != abi::WrOpcode::kSend;
  if (((wc.flags & abi::kWcWithImm) != 0) != imm) return "wrong immediate flag";
  if (imm && wc.imm_wire != op.imm_wire) return text("immediate", wc.imm_wire, op.imm_wire);
  const Station& here = *end.station;
  if (op.is_write()) {
    return here.memory.holds(here.va(op.remote), op.bytes, op.seed) ? "" : "immediate before data";
  }
  return here.memory.holds(here.va(recv.local), op.bytes, op.seed) ? "" : "wrong bytes received";
}

}  // namespace

std::string check_completion(End& end, const Wc& wc, bool lossy) {
  return wc.recv ? check_recv(end, wc) : check_send(end, wc, lossy);
}

}  // namespace verbena::sim
