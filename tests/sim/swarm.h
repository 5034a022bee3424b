// Swarm: random work between random devices over a faulty network in virtual time, checked by a
// model that knows what every completion and every byte must be.
//
// All randomness comes from the seed; the same seed with the same reduction gives the same packets
// at the same times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "stack/wire/parse.h"
#include "tests/sim/plan.h"

namespace verbena::sim {

struct SwarmResult {
  std::string failure;      // empty: all was as it must be
  std::string world;        // the faults of this seed
  uint64_t trace_hash = 0;  // of all packets sent and their times
  uint64_t packets = 0;
  uint32_t operations = 0;  // posted
  uint64_t resent = 0;
};

struct SwarmOptions {
  Reduction reduction;
  bool every_fault = false;  // on each link
  bool trace = false;        // prints each packet sent, and each that arrives damaged
  // What a test breaks on purpose: called for each packet sent, and may change it.
  std::function<void(Frame&, const wire::ParsedPacket&)> sabotage;
};

SwarmResult run_swarm(uint64_t seed, const SwarmOptions& options = {});

}  // namespace verbena::sim
