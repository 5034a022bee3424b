// What came of a case: a row for each thing that happened, in order, and what was wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/time.h"
#include "tools/conformance/compare.h"

namespace verbena::conformance {

struct Row {
  enum class Kind : uint8_t {
    kPlayed,     // a packet of the peer, played
    kLost,       // a packet of the peer that did not arrive
    kSame,       // the device sent what the capture has, or what a [[difference]] says
    kCovered,    // in the capture alone, and a rule allows that
    kAllowed,    // sent by the device alone, and a rule or the case allows that
    kAction,     // the application did something
    kDifferent,  // the rest are failures: not what the capture has,
    kMissing,    // in the capture alone,
    kExtra,      // sent by the device alone,
    kUntimely,   // sent at a time that no rule allows
  };
  Kind kind = Kind::kPlayed;
  DurationNs time = 0;                    // after the first packet
  uint32_t packet = 0;                    // of the capture; 0: none
  std::vector<uint8_t> ours;              // what the device sent; empty: nothing
  std::vector<FieldMismatch> mismatches;  // kDifferent
  std::string note;

  [[nodiscard]] bool failed() const { return kind >= Kind::kDifferent; }
};

struct CaseResult {
  std::string device = "Verbena";  // who was tested, in ladders
  std::vector<Row> rows;
  std::vector<std::string> wrong;  // besides the rows: memory, completions, counters ...

  [[nodiscard]] bool passed() const {
    for (const Row& row : rows) {
      if (row.failed()) return false;
    }
    return wrong.empty();
  }
};

}  // namespace verbena::conformance
