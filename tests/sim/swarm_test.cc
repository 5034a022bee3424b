// The simulator itself: a seed repeats, a planted fault is found, and shrinks to less.
#include "tests/sim/swarm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "stack/wire/icrc.h"
#include "tests/sim/seeds.h"
#include "tests/sim/shrink.h"

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

// A wire that turns a bit of each payload of more than 100 bytes, and makes the ICRC right again.
void turn_a_bit(Frame& frame, const wire::ParsedPacket& packet) {
  if (packet.payload.size() <= 100) return;
  frame.data[static_cast<size_t>(packet.payload.data() - frame.data.get()) + 50] ^= 4;
  const auto covered = packet.ip.first(packet.ip.size() - 4);
  const uint32_t icrc = wire::icrc(covered);
  std::memcpy(frame.data.get() + frame.bytes - 4, &icrc, sizeof icrc);
}

TEST(SwarmTest, WrongByteIsFoundAgainAndShrinksToOneOperation) {
  const SwarmOptions broken{.reduction = {}, .trace = false, .sabotage = turn_a_bit};
  uint32_t found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const SwarmResult result = run_swarm(seed, broken);
    if (result.failure.empty()) continue;
    ++found;
    EXPECT_EQ(run_swarm(seed, broken).failure, result.failure);
    const Shrunk less = shrink(seed, broken);
    EXPECT_EQ(less.result.operations, 1U) << result.failure;
    EXPECT_EQ(less.reduction.max_bytes, 256U);
    // The reduction alone makes it fail, and only with the fault.
    SwarmOptions replay = broken;
    replay.reduction = less.reduction;
    EXPECT_EQ(run_swarm(seed, replay).failure, less.result.failure);
    replay.sabotage = nullptr;
    EXPECT_EQ(run_swarm(seed, replay).failure, "");
  }
  EXPECT_GE(found, 8U);
}

// A wire that makes every fifth ACK one for a packet later: something is lost or never completed.
TEST(SwarmTest, AckForWhatDidNotArriveIsFound) {
  const SwarmOptions broken{
      .reduction = {},
      .trace = false,
      .sabotage = [](Frame& frame, const wire::ParsedPacket& packet) {
        if (packet.info->operation != verbena::Operation::kAcknowledge ||
            packet.psn.value() % 5 != 0) {
          return;
        }
        frame.data[static_cast<size_t>(packet.ip.data() - frame.data.get()) + 20 + 8 + 11] ^= 1;
        const uint32_t icrc = wire::icrc(packet.ip.first(packet.ip.size() - 4));
        std::memcpy(frame.data.get() + frame.bytes - 4, &icrc, sizeof icrc);
      }};
  uint32_t found = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) found += !run_swarm(seed, broken).failure.empty();
  EXPECT_GE(found, 10U);
}

// Several processes print what one does.
TEST(SeedsTest, OutputIsTheSameForAnyNumberOfJobs) {
  const auto output = [](uint32_t jobs) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_seeds({.command = "swarm", .from = 1, .to = 50, .jobs = jobs, .verbose = true}),
              0U);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  const std::string one = output(1);
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 50);
  EXPECT_EQ(output(3), one);
}

TEST(ReductionTest, WhatRemainsIsAsItWas) {
  const Plan whole = make_plan(3);
  Reduction reduction;
  reduction.without = 1U << static_cast<uint32_t>(Feature::kDrop);
  reduction.ops = std::vector<uint32_t>{1, 4};
  const Plan less = make_plan(3, reduction);
  EXPECT_EQ(less.operations(), 2U);
  ASSERT_EQ(less.ends.size(), whole.ends.size());
  for (size_t i = 0; i < less.ends.size(); ++i) {
    EXPECT_EQ(less.ends[i].station, whole.ends[i].station);
    EXPECT_EQ(less.ends[i].connect.sq_psn, whole.ends[i].connect.sq_psn);
    for (const Operation& op : less.ends[i].ops) EXPECT_TRUE(op.number == 1 || op.number == 4);
  }
  for (size_t i = 0; i < less.stations.size(); ++i) {
    EXPECT_EQ(less.stations[i].up.faults.drop_ppm, 0U);
    EXPECT_EQ(less.stations[i].up.faults.reorder_ppm, whole.stations[i].up.faults.reorder_ppm);
  }
  EXPECT_EQ(reduction.text(), " --without drop --only 1,4");
}

TEST(PlanTest, EveryFaultIsOnEachLink) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Plan plan = make_plan(seed, {}, true);
    EXPECT_NE(plan.topology, Plan::Topology::kIdeal);
    uint32_t blackholes = 0;
    for (const StationPlan& station : plan.stations) {
      for (const LinkConfig* link : {&station.up, &station.down}) {
        const Faults& faults = link->faults;
        EXPECT_NE(faults.drop_ppm, 0U);
        EXPECT_NE(faults.duplicate_ppm, 0U);
        EXPECT_NE(faults.corrupt_ppm, 0U);
        EXPECT_NE(faults.truncate_ppm, 0U);
        EXPECT_NE(faults.reorder_ppm, 0U);
        EXPECT_NE(faults.jitter, 0U);
        blackholes += faults.blackhole_from != kNever;
      }
    }
    EXPECT_EQ(blackholes, 1U);
  }
}

}  // namespace
}  // namespace verbena::sim
