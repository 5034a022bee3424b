// Plan: what a seed makes, as plain data: stations, the network with its faults, queue pairs, and
// every operation with its place in memory. make_plan() draws it; the run (swarm.h) only follows
// it.
//
// A plan can be reduced: features switched off, operations left out, sizes cut. What remains stays
// as it was, because each part draws from a random stream of its own: that is what shrinking a
// failing run needs.
//
// Every operation has slices of memory of its own at both ends, so that each byte of the memory has
// one right value at every time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/sim/network.h"
#include "tools/sim/station.h"

namespace verbena::sim {

// What can be switched off, by name.
enum class Feature : uint8_t {
  kDrop,
  kDuplicate,
  kCorrupt,
  kTruncate,
  kReorder,
  kJitter,
  kBlackhole,
  kBandwidth,  // off: links of infinite bandwidth, which never queue
  kDelay,
  kSink,    // few frames for each poll
  kLater,   // client memory is not ready now and then
  kFault,   // client memory fails once
  kGone,    // a client's memory vanishes
  kCut,     // a queue pair is moved to ERR or destroyed in the middle
  kLate,    // receives are posted late
  kFlaw,    // operations that must fail
  kShared,  // shared receive queues
  kSplit,   // several SGEs
  kCount,
};
std::string_view feature_name(Feature feature);
std::optional<Feature> feature_of(std::string_view name);

struct Reduction {
  uint32_t without = 0;                      // a bit for each Feature
  std::optional<std::vector<uint32_t>> ops;  // the numbers of those that stay, ascending
  uint32_t max_bytes = UINT32_MAX;           // of a message

  bool has(Feature feature) const { return (without >> static_cast<uint32_t>(feature) & 1) == 0; }
  // As options of the command; empty when nothing is reduced.
  std::string text() const;
};

// Why an operation must fail, and which status says so.
enum class Flaw : uint8_t {
  kNone,
  kBadRkey,       // kRemAccess
  kNoAccess,      // a key without the right: kRemAccess
  kBadLkey,       // kLocProt
  kBadOpcode,     // kLocQpOp
  kTooLong,       // longer than the device's largest message: kLocLen
  kShortReceive,  // kRemInvReq; the receiver sees kLocLen
  kBadReceive,    // the receive's lkey: kRemOp; the receiver sees kLocProt
  kBadHandle,     // UD: no such address handle: kLocQpOp
};
// Does the responder find it, and fail too?
bool is_remote(Flaw flaw);
abi::WcStatus status_of(Flaw flaw);

// A piece of a station's memory.
struct Slice {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

struct Operation {
  uint32_t number = 0;  // in the whole plan
  abi::WrOpcode opcode = abi::WrOpcode::kSend;
  uint8_t flags = 0;
  Flaw flaw = Flaw::kNone;
  uint32_t bytes = 0;
  uint32_t imm_wire = 0;
  uint32_t slack = 0;        // bytes of the receive beyond the message
  uint32_t to = 0;           // UD: the end that it goes to
  bool reads_back = false;   // a READ of what the WRITE before it stores
  bool read_back = false;    // that WRITE
  std::vector<Slice> local;  // one for each SGE, adjacent; empty for no SGE
  Slice from;                // all of `local`
  Slice remote;              // WRITE, READ
  Slice receive;             // where the peer's receive queue is its own
  std::vector<Slice> receive_sges;

  bool is_send() const {
    return opcode == abi::WrOpcode::kSend || opcode == abi::WrOpcode::kSendImm;
  }
  bool is_read() const { return opcode == abi::WrOpcode::kRead; }
  bool is_write() const {
    return opcode == abi::WrOpcode::kWrite || opcode == abi::WrOpcode::kWriteImm;
  }
  bool has_imm() const {
    return opcode == abi::WrOpcode::kSendImm || opcode == abi::WrOpcode::kWriteImm;
  }
  bool consumes_receive() const { return is_send() || opcode == abi::WrOpcode::kWriteImm; }
  bool is_signaled() const { return (flags & abi::kWrSignaled) != 0; }
  bool is_inline() const { return (flags & abi::kWrInline) != 0; }
  uint32_t pattern() const { return reads_back ? number : number + 1; }  // of its bytes
};

// One queue pair. Of a connection the ends are neighbours: 2n and 2n + 1.
struct EndPlan {
  QpType type = QpType::kRc;
  uint32_t station = 0;
  uint32_t peer = 0;  // RC: the number of the other end
  bool shares_receives = false;
  bool shares_cq = false;
  bool sig_all = false;
  ConnectOptions connect;
  uint32_t pace = 0;  // ns between what its application does, at most
  uint32_t batch = 1;
  std::vector<Operation> ops;
  std::vector<Slice> datagram_receives;  // UD with a receive queue of its own
  bool active = false;                   // it, or one that sends to it, has operations
};

struct StationPlan {
  uint32_t window_packets = 32;
  uint32_t ack_every_packets = 8;
  uint32_t quantum_packets = 16;
  LinkConfig up, down;
  std::vector<Slice> shared_receives;
  uint32_t shared_bytes = 0;  // of each of them
  size_t memory_bytes = 0;
};

// Something that happens once, when nobody expects it.
struct Incident {
  enum class Kind : uint8_t {
    kError,    // a queue pair is moved to ERR
    kDestroy,  // ... or destroyed
    kFault,    // the next access to a station's memory fails
    kGone,     // all accesses do, from now on
  };
  Kind kind = Kind::kError;
  DurationNs after = 0;  // from the start
  uint32_t target = 0;   // an end, or a station
};

struct Plan {
  enum class Topology : uint8_t { kIdeal, kCable, kSwitch };

  uint64_t seed = 0;
  Topology topology = Topology::kIdeal;
  std::vector<StationPlan> stations;
  std::vector<EndPlan> ends;
  uint32_t sink_capacity = UINT32_MAX;
  uint32_t poll_budget = 64;
  uint32_t later = 0;  // per mille of what applications do
  bool late = false;   // receives
  std::vector<Incident> incidents;

  uint32_t operations() const;
  // Frames can be lost, twice or out of order.
  bool faulty() const;
  // So many may be lost that giving up is right.
  bool may_give_up() const;
  bool duplicates() const;
  // Its faults, in words.
  std::string text() const;

 private:
  template <typename Test>
  bool any_link(Test&& test) const;
};

// `every_fault`: each link has all of them, where a seed alone draws which.
Plan make_plan(uint64_t seed, const Reduction& reduction = {}, bool every_fault = false);

// Datagram receives begin with the space for a GRH.
inline constexpr uint32_t kGrhBytes = 40;
inline constexpr uint32_t kUdMtu = 1024;  // of the simulated ports
inline constexpr uint32_t kMaxMessage = 1 << 20;
inline constexpr uint32_t kQkey = 0x1234;

}  // namespace verbena::sim
