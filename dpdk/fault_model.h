// FaultModel: what a lossy wire does to each frame. No clock of its own; looks at a frame's opcode
// and size only.
//
// Up to kMaxFaultRules rules, which act on a frame in their order: one that drops it ends the
// matter, delays add up. The same rules give the same verdicts for the same sequence of frames of a
// direction: each frame that a rule chooses draws the same number of random values, whatever is
// decided, and the directions do not share them.
//
// Thread rule: the polling thread's, inside the ports or inside a command. set() may allocate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dpdk/fault_rule.h"

namespace verbena {

// What becomes of one frame.
struct FaultVerdict {
  bool drop = false;
  bool duplicate = false;
  uint32_t overtaken_by = 0;            // frames that pass this one; 0 = none
  std::optional<uint32_t> corrupt_bit;  // index of the bit to flip, below 8 * frame bytes
  DurationNs delay_ns = 0;
};

// What a rule has done since it was set.
struct FaultTally {
  uint64_t matched = 0;  // frames of its direction and opcode; nth= counts these
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t delayed = 0;
};

class FaultModel {
 public:
  struct Entry {
    FaultRule rule;
    FaultTally tally;
    std::array<uint64_t, 2> random{};  // by direction
    // A rule does not reorder what it delays: nothing is due before what came earlier.
    std::array<Timestamp, 2> last_due{};
  };

  // A rule with the same selector gives way; else the new one comes last. False: there are
  // kMaxFaultRules others.
  bool set(const FaultRule& rule);
  // Removes the rules that `selector` covers; returns how many.
  uint32_t clear(const FaultSelector& selector);

  bool active() const { return count_ != 0; }
  std::span<const Entry> rules() const { return {entries_.data(), count_}; }

  // A frame that device `from` sends. It is not put aside for others to pass unless `may_hold`.
  FaultVerdict next(uint32_t from, std::span<const uint8_t> frame, Timestamp now, bool may_hold);

 private:
  std::array<Entry, kMaxFaultRules> entries_;
  uint32_t count_ = 0;
};

}  // namespace verbena
