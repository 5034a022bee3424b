// Every counter and every reason to drop a packet has a name of its own.
#include "stack/stats.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace verbena {
namespace {

TEST(Stats, DropReasonsHaveDistinctNames) {
  const std::regex identifier("[a-z]+(_[a-z]+)*");
  std::set<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(DropReason::kCount); ++i) {
    const std::string name(drop_reason_name(static_cast<DropReason>(i)));
    EXPECT_TRUE(std::regex_match(name, identifier)) << name;
    EXPECT_NE(name, "invalid");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(drop_reason_name(DropReason::kBadIcrc), "bad_icrc");
  EXPECT_EQ(drop_reason_name(DropReason::kCount), "invalid");
}

TEST(Stats, ForEachVisitsEveryCounterOnce) {
  DeviceStats stats;
  // The counters lie one behind the other, before the array of drops.
  constexpr size_t kCounters = (sizeof(DeviceStats) - sizeof(stats.dropped)) / sizeof(uint64_t);
  std::set<std::string> names;
  stats.for_each([&](std::string_view name, uint64_t value) {
    EXPECT_EQ(value, 0U) << name;
    EXPECT_TRUE(names.insert(std::string(name)).second) << name;
  });
  EXPECT_GE(names.size(), kCounters);
}

TEST(Stats, DropCountsItsReason) {
  DeviceStats stats;
  stats.drop(DropReason::kGhostAck);
  stats.drop(DropReason::kGhostAck);
  EXPECT_EQ(stats.dropped[static_cast<size_t>(DropReason::kGhostAck)], 2U);
  EXPECT_EQ(stats.dropped[static_cast<size_t>(DropReason::kBadIcrc)], 0U);
}

}  // namespace
}  // namespace verbena
