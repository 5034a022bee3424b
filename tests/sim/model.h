// Model: what was posted, and what must therefore be completed: in which order, with which status
// and which bytes. Every completion of the run is checked here.
//
// An error needs a cause that is there: a flaw of the operation, something that happened to the
// queue pair or to a station's memory, a peer that no longer answers, a network that loses much.
// The first error of a queue pair is followed by flushes alone.
//
// When an operation is done, its buffers belong to the application again, which overwrites them at
// once. So an engine that stores a packet twice, or sends again what was acknowledged, leaves bytes
// that the end of the run finds (audit.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/plan.h"
#include "tools/sim/fabric.h"
#include "tools/sim/random.h"

namespace verbena::sim {

// What lies in a slice.
enum class Bytes : uint8_t {
  kBlank,    // nothing was ever stored
  kData,     // the operation's pattern
  kReused,   // what the application wrote when it was done
  kUnknown,  // the operation failed: anything
};

// The blank of memory that nothing was stored to.
inline constexpr uint8_t kBlankByte = 0xEE;
// The pattern of a buffer in its next life.
constexpr uint32_t reused(uint32_t pattern) {
  return ~pattern;
}

struct OperationState {
  const Operation* op = nullptr;
  Bytes from = Bytes::kBlank;
  Bytes remote = Bytes::kBlank;
  Bytes receive = Bytes::kBlank;
  bool succeeded = false;   // at its sender
  bool received = false;    // its receive was completed
  uint32_t deliveries = 0;  // of a datagram
};

// A receive buffer that is not tied to one operation.
struct Buffer {
  Slice slice;
  Bytes bytes = Bytes::kBlank;
  uint32_t pattern = 0;  // when reused
  bool posted = false;
  bool completed = false;
};

struct End;

struct World {
  Station* station = nullptr;
  const StationPlan* plan = nullptr;
  MrKeys no_access;  // of all of the memory, without remote rights
  ClientCq* cq = nullptr;
  ClientSrq* srq = nullptr;
  std::vector<Buffer> shared;
  uint32_t shared_posted = 0;
  std::vector<AhId> ahs;  // by station
  std::vector<End*> ends;
  bool faulted = false;  // an access to its memory was made to fail
  // Completions taken that were not successes, by status.
  static constexpr uint32_t kStatuses = 32;
  uint64_t send_errors[kStatuses] = {};
  uint64_t recv_errors[kStatuses] = {};
  uint64_t bad_handles = 0;  // operations that failed because of theirs
  uint64_t malformed = 0;    // operations posted that break a rule of the ring
};

// One queue pair.
struct End {
  const EndPlan* plan = nullptr;
  World* world = nullptr;
  End* peer = nullptr;  // RC
  ClientQp* qp = nullptr;
  ClientCq* cq = nullptr;
  Random random{0};
  Timestamp next_act = 0;

  std::vector<OperationState> ops;
  uint32_t posted = 0;                    // operations
  uint32_t completed = 0;                 // ... that have been retired
  std::deque<OperationState*> receiving;  // RC, receive queue of its own: those to be posted for
  std::deque<OperationState*> receives;   // ... those posted
  std::deque<OperationState*> arriving;   // RC: the peer's that will consume a receive
  std::vector<Buffer> buffers;            // UD with a receive queue of its own
  uint32_t receives_posted = 0;
  uint32_t receives_completed = 0;
  uint32_t datagrams = 0;    // UD: received
  uint32_t laters_left = 8;  // how often its memory may still be made not ready

  bool cut = false;      // moved to ERR by its application
  bool gone = false;     // destroyed
  bool broken = false;   // an error completion was seen
  bool flushes = false;  // ... of a send

  bool is_rc() const { return plan->type == QpType::kRc; }
  bool all_posted() const { return posted == ops.size(); }
  // Nothing more will be completed for its send queue.
  bool done() const { return gone || broken || (all_posted() && completed == posted); }
  bool shares_receives() const { return plan->shares_receives; }
};

class Model {
 public:
  // All of these must outlive the model.
  Model(const Plan& plan, const Network& network, std::vector<std::unique_ptr<End>>& ends)
      : network_(network),
        ends_(ends),
        duplicates_(plan.duplicates()),
        may_give_up_(plan.may_give_up()) {}

  // Checks a completion of `world` and retires what it retires. Empty, or what is wrong.
  std::string check(World& world, const Wc& wc);
  // At the end of a queue pair: operations done without a completion, because they were not
  // signaled and only a receive failed behind them.
  std::string retire_silent(End& end);

 private:
  std::string check_send(End& end, const Wc& wc);
  std::string check_send_error(const End& end, const OperationState& op, abi::WcStatus status);
  std::string check_receive(End& end, const Wc& wc);
  std::string check_message(End& end, const Wc& wc, Buffer* buffer, OperationState& op);
  std::string check_datagram(End& end, const Wc& wc, Buffer& buffer);
  std::string check_receive_error(End& end, const Wc& wc, OperationState* op);
  bool may_flush(const End& end) const;
  bool may_be_unanswered(const End& end) const;
  End* find(const World& world, Qpn qpn) const;
  std::string retire(End& end, OperationState& op);

  const Network& network_;
  std::vector<std::unique_ptr<End>>& ends_;
  bool duplicates_;
  bool may_give_up_;
};

// The application writes something else to where an operation was. No-op unless it holds data.
void reuse(Station& station, const Slice& slice, uint32_t pattern, Bytes& bytes);

}  // namespace verbena::sim
