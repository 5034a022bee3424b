// Swarm: random work between random devices over a faulty wire in virtual time, checked by a model
// that knows what every completion and every byte must be.
//
// All randomness comes from the seed; the same seed gives the same packets at the same times.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::sim {

struct SwarmResult {
  std::string failure;      // empty: all was as it must be
  std::string world;        // the faults of this seed
  uint64_t trace_hash = 0;  // of all packets sent and their times
  uint64_t packets = 0;
  uint64_t operations = 0;
  uint64_t resent = 0;
};

// `trace`: prints each packet and what becomes of it.
SwarmResult run_swarm(uint64_t seed, bool trace = false);

}  // namespace verbena::sim
