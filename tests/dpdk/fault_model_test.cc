// The lossy wire: the same seed gives the same faults, and as many as were asked for.

#include "dpdk/fault_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena {
namespace {

constexpr uint32_t kFrames = 200'000;

std::vector<FaultVerdict> verdicts(const FaultSettings& settings, uint64_t stream, uint32_t count) {
  FaultModel model(settings, stream);
  std::vector<FaultVerdict> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(model.next(60 + i % 4000));
  return all;
}

bool same(const FaultVerdict& a, const FaultVerdict& b) {
  return a.drop == b.drop && a.duplicate == b.duplicate && a.overtaken_by == b.overtaken_by &&
         a.corrupt_bit == b.corrupt_bit;
}

size_t differences(const std::vector<FaultVerdict>& a, const std::vector<FaultVerdict>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += same(a[i], b[i]) ? 0 : 1;
  return count;
}

TEST(FaultModelTest, SeedAndStreamDecide) {
  FaultSettings settings{0.1, 0.1, 0.1, 0.1, 7};
  const auto first = verdicts(settings, 0, 10'000);
  EXPECT_EQ(differences(first, verdicts(settings, 0, 10'000)), 0U);
  EXPECT_GT(differences(first, verdicts(settings, 1, 10'000)), 1000U);
  settings.seed = 8;
  EXPECT_GT(differences(first, verdicts(settings, 0, 10'000)), 1000U);
}

TEST(FaultModelTest, OneFaultDoesNotShiftTheOthers) {
  const auto without = verdicts({0, 0.1, 0, 0.1, 3}, 0, 10'000);
  const auto with = verdicts({0.2, 0.1, 0, 0.1, 3}, 0, 10'000);
  size_t dropped = 0;
  for (size_t i = 0; i < with.size(); ++i) {
    if (with[i].drop) {
      ++dropped;
    } else {
      EXPECT_TRUE(same(with[i], without[i]));
    }
  }
  EXPECT_GT(dropped, 1500U);
}

TEST(FaultModelTest, RatesAreThoseAskedFor) {
  size_t drop = 0, duplicate = 0, reorder = 0, corrupt = 0;
  for (const auto& verdict : verdicts({0.01, 0.02, 0.03, 0.04, 1}, 0, kFrames)) {
    drop += verdict.drop ? 1 : 0;
    duplicate += verdict.duplicate ? 1 : 0;
    reorder += verdict.overtaken_by != 0 ? 1 : 0;
    corrupt += verdict.corrupt_bit ? 1 : 0;
    EXPECT_LE(verdict.overtaken_by, FaultModel::kMaxOvertake);
  }
  EXPECT_NEAR(static_cast<double>(drop) / kFrames, 0.01, 0.002);
  EXPECT_NEAR(static_cast<double>(duplicate) / kFrames, 0.0198, 0.002);
  EXPECT_NEAR(static_cast<double>(reorder) / kFrames, 0.0297, 0.002);
  EXPECT_NEAR(static_cast<double>(corrupt) / kFrames, 0.0396, 0.002);
}

TEST(FaultModelTest, ExtremesAreExact) {
  for (const auto& verdict : verdicts({1, 0, 0, 0, 1}, 0, 1000)) EXPECT_TRUE(verdict.drop);
  for (const auto& verdict : verdicts({}, 0, 1000)) EXPECT_TRUE(same(verdict, {}));
  EXPECT_FALSE(FaultModel({}, 0).active());
  FaultModel model({0, 0, 0, 1, 1}, 0);
  for (uint32_t bytes = 1; bytes < 2000; ++bytes) {
    const auto verdict = model.next(bytes);
    ASSERT_TRUE(verdict.corrupt_bit.has_value());
    EXPECT_LT(*verdict.corrupt_bit, 8 * bytes);
  }
  EXPECT_FALSE(model.next(0).corrupt_bit.has_value());
}

}  // namespace
}  // namespace verbena
