// Model of one direction of a connection: what the sender posted, what the receiver posted, and
// what must therefore be completed, in which order, with which bytes.
//
// Every operation has slices of memory of its own at both ends, so that each byte of the memory has
// one right value at the end.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tools/sim/fabric.h"

namespace verbena::sim {

struct Operation {
  abi::WrOpcode opcode = abi::WrOpcode::kSend;
  uint8_t flags = 0;
  uint32_t bytes = 0;
  uint32_t seed = 0;  // of its pattern
  uint32_t imm_wire = 0;
  uint64_t local = 0;    // offsets in the memories
  uint64_t remote = 0;   // WRITE, READ
  bool bad_key = false;  // must fail

  bool consumes_recv() const {
    return opcode == abi::WrOpcode::kSend || opcode == abi::WrOpcode::kSendImm ||
           opcode == abi::WrOpcode::kWriteImm;
  }
  bool is_read() const { return opcode == abi::WrOpcode::kRead; }
  bool is_write() const {
    return opcode == abi::WrOpcode::kWrite || opcode == abi::WrOpcode::kWriteImm;
  }
};

struct Receive {
  uint64_t local = 0;
  uint32_t bytes = 0;
};

// One end of a connection.
struct End {
  Station* station = nullptr;
  ClientQp* qp = nullptr;
  ClientCq* cq = nullptr;
  End* peer = nullptr;
  std::deque<Operation> planned;  // not posted yet
  std::deque<Operation> posted;   // not completed yet; the front has index `completed`
  std::deque<Receive> recvs_planned;
  std::deque<Receive> recvs;       // posted, not completed
  std::deque<Operation> arriving;  // the peer's operations that will consume a receive, in order
  uint32_t completed = 0;
  uint32_t received = 0;
  bool failed = false;     // an error completion was seen
  bool may_fail = false;   // an error is right: a bad key, or the connection was cut
  bool may_flush = false;  // its queue pair may fail without one of its own requests failing
  bool gone = false;       // destroyed

  bool done() const {
    return gone || (planned.empty() && posted.empty() && (failed || recvs.empty()));
  }
};

// Checks a completion at `end` and retires what it retires. Empty, or what is wrong.
std::string check_completion(End& end, const Wc& wc, bool lossy);

}  // namespace verbena::sim
