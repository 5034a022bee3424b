// The steps of make_plan() that follow the drawing, and the random streams of the plan.
#pragma once

#include "tests/sim/plan.h"

namespace verbena::sim {

// Each part of a plan draws from a stream of its own. Those of ends and operations are numbered
// from these on.
enum PlanStream : uint64_t {
  kWorld = 1,
  kNetwork,
  kStations,
  kConnections,
  kFlaws,
  kIncidents,
  kReadBacks,
  kEnd = 100,
  kOp = 10'000
};

// A blackhole of up to so much costs two retries at most: no reason to give up.
inline constexpr DurationNs kShortBlackhole = 4'000'000;

// Takes away what the reduction says.
void reduce(Plan& plan, const Reduction& reduction);
// Gives everything its place in memory, and marks the ends that take part.
void lay_out(Plan& plan, const Reduction& reduction);

}  // namespace verbena::sim
