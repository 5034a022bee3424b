// Shrinking: the least that still fails, out of a failing run. Faults are switched off, operations
// left out and messages cut, one after the other, as long as the run fails in the same way.
#pragma once

#include <cstdint>

#include "tests/sim/swarm.h"

namespace verbena::sim {

struct Shrunk {
  Reduction reduction;
  SwarmResult result;  // of the run so reduced: it fails
  uint32_t runs = 0;   // tried
};

// `options` must make the seed fail; its reduction is where shrinking begins.
Shrunk shrink(uint64_t seed, const SwarmOptions& options);

}  // namespace verbena::sim
