// FaultRule: which packets of the wire meet which faults, and the words for it.
//
//   [from=DEVICE] [opcode=NAME] [nth=N[+N...]]        which packets (all, unless said)
//   [drop=P] [dup=P] [reorder=P] [reorder-by=N] [corrupt=P] [delay=TIME] [jitter=TIME] [seed=N]
//
// Words are separated by blanks or commas. P is a share of the packets: 0.05 or 5%; 1 is always.
// TIME has a unit: 500ns, 10us, 2ms, 1s. The command line, the administration and what the daemon
// prints use these words and no others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/time.h"
#include "stack/wire/opcode_set.h"

namespace verbena {

inline constexpr uint32_t kMaxFaultRules = 8;  // of a wire

using DeviceNames = std::array<std::string, 2>;

struct FaultSelector {
  static constexpr uint32_t kBoth = 2;

  uint32_t from = kBoth;      // index of the sending device
  std::string opcode;         // as it was written; empty: every opcode
  OpcodeSet opcodes;          // those that it names
  std::vector<uint32_t> nth;  // counted from 1 since the rule was set, ascending; empty: every one

  bool any_opcode() const { return opcode.empty(); }
  // The same packets, whatever the words for them.
  bool same(const FaultSelector& other) const {
    return from == other.from && opcodes == other.opcodes && nth == other.nth;
  }
  // Each word of this one is a word of `other` too.
  bool covers(const FaultSelector& other) const {
    return (from == kBoth || from == other.from) && (any_opcode() || opcodes == other.opcodes) &&
           (nth.empty() || nth == other.nth);
  }
};

struct FaultRule {
  static constexpr uint32_t kMaxReorderBy = 64;

  FaultSelector selector;
  // Shares of the packets chosen, 0 to 1.
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  uint32_t reorder_by = 4;  // at most so many later packets pass a reordered one
  DurationNs delay_ns = 0;
  DurationNs jitter_ns = 0;  // the delay varies by so much, up and down
  uint64_t seed = 1;
};

// What is wrong with words of a user's, and what to write instead. Empty: nothing is.
struct Refusal {
  std::string what;
  std::string instead;

  explicit operator bool() const { return !what.empty(); }
};

Refusal parse_fault_rule(std::string_view words, const DeviceNames& names, FaultRule& rule);
// from=, opcode= and nth= alone.
Refusal parse_fault_selector(std::string_view words, const DeviceNames& names,
                             FaultSelector& selector);

// The words that make this rule.
std::string fault_words(const FaultRule& rule, const DeviceNames& names);
std::string fault_words(const FaultSelector& selector, const DeviceNames& names);

}  // namespace verbena
