// The same seed gives the same packets at the same times, and seeds differ.
#include "tests/sim/swarm.h"

#include <gtest/gtest.h>

#include <set>

namespace verbena::sim {
namespace {

TEST(SwarmTest, SameSeedGivesSameTrace) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const SwarmResult first = run_swarm(seed);
    const SwarmResult again = run_swarm(seed);
    EXPECT_EQ(first.failure, "");
    EXPECT_EQ(first.trace_hash, again.trace_hash);
    EXPECT_EQ(first.packets, again.packets);
    hashes.insert(first.trace_hash);
  }
  EXPECT_EQ(hashes.size(), 20U);
}

}  // namespace
}  // namespace verbena::sim
