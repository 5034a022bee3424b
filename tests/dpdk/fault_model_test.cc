// The lossy wire: rules choose packets, the same seed gives the same faults, and as many as were
// asked for.

#include "dpdk/fault_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace verbena {
namespace {

constexpr uint32_t kFrames = 200'000;
constexpr size_t kIpAt = 14;
constexpr size_t kBthAt = 42;
const DeviceNames kEnds = {"a", "b"};

FaultRule rule_of(std::string_view words) {
  FaultRule parsed;
  const Refusal refusal = parse_fault_rule(words, kEnds, parsed);
  EXPECT_FALSE(refusal) << refusal.what;
  return parsed;
}

FaultModel model(std::initializer_list<std::string_view> rules) {
  FaultModel made;
  for (const auto words : rules) EXPECT_TRUE(made.set(rule_of(words)));
  return made;
}

std::vector<uint8_t> frame(Opcode opcode, size_t bytes = 100) {
  std::vector<uint8_t> made(bytes);
  made[kIpAt] = 0x45;
  made[kBthAt] = static_cast<uint8_t>(opcode);
  return made;
}

FaultVerdict next(FaultModel& faults, uint32_t from = 0, Opcode opcode = Opcode::kSendOnly,
                  Timestamp now = 1'000'000) {
  return faults.next(from, frame(opcode), now, true);
}

std::vector<FaultVerdict> verdicts(FaultModel faults, uint32_t from, uint32_t count) {
  std::vector<FaultVerdict> all;
  const auto bytes = frame(Opcode::kSendOnly, 4100);
  for (uint32_t i = 0; i < count; ++i) {
    all.push_back(faults.next(from, std::span(bytes).first(60 + i % 4000), 0, true));
  }
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

TEST(FaultModelTest, SeedAndDirectionDecide) {
  const auto seven = model({"drop=10% dup=10% reorder=10% corrupt=10% seed=7"});
  const auto first = verdicts(seven, 0, 10'000);
  EXPECT_EQ(differences(first, verdicts(seven, 0, 10'000)), 0U);
  EXPECT_GT(differences(first, verdicts(seven, 1, 10'000)), 1000U);
  const auto eight = model({"drop=10% dup=10% reorder=10% corrupt=10% seed=8"});
  EXPECT_GT(differences(first, verdicts(eight, 0, 10'000)), 1000U);
}

TEST(FaultModelTest, DirectionsDoNotDisturbEachOther) {
  FaultModel faults = model({"drop=10% seed=7"});
  const auto alone = verdicts(faults, 0, 1000);
  for (size_t i = 0; i < alone.size(); ++i) {
    next(faults, 1);
    EXPECT_EQ(next(faults, 0).drop, alone[i].drop);
  }
}

TEST(FaultModelTest, OneFaultDoesNotShiftTheOthers) {
  const auto without = verdicts(model({"dup=10% corrupt=10% seed=3"}), 0, 10'000);
  const auto with = verdicts(model({"drop=20% dup=10% corrupt=10% seed=3"}), 0, 10'000);
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
  uint32_t furthest = 0;
  const auto faults = model({"drop=1% dup=2% reorder=3% reorder-by=64 corrupt=4%"});
  for (const auto& verdict : verdicts(faults, 0, kFrames)) {
    drop += verdict.drop ? 1 : 0;
    duplicate += verdict.duplicate ? 1 : 0;
    reorder += verdict.overtaken_by != 0 ? 1 : 0;
    corrupt += verdict.corrupt_bit ? 1 : 0;
    furthest = std::max(furthest, verdict.overtaken_by);
  }
  EXPECT_NEAR(static_cast<double>(drop) / kFrames, 0.01, 0.002);
  EXPECT_NEAR(static_cast<double>(duplicate) / kFrames, 0.0198, 0.002);
  EXPECT_NEAR(static_cast<double>(reorder) / kFrames, 0.0297, 0.002);
  EXPECT_NEAR(static_cast<double>(corrupt) / kFrames, 0.0396, 0.002);
  EXPECT_EQ(furthest, 64U);
}

TEST(FaultModelTest, ExtremesAreExact) {
  for (const auto& verdict : verdicts(model({"drop=1"}), 0, 1000)) EXPECT_TRUE(verdict.drop);
  for (const auto& verdict : verdicts({}, 0, 1000)) EXPECT_TRUE(same(verdict, {}));
  EXPECT_FALSE(FaultModel().active());
  FaultModel faults = model({"corrupt=1"});
  EXPECT_TRUE(faults.active());
  const auto bytes = frame(Opcode::kAcknowledge, 2000);
  for (uint32_t size = 1; size < 2000; ++size) {
    const auto verdict = faults.next(0, std::span(bytes).first(size), 0, true);
    ASSERT_TRUE(verdict.corrupt_bit.has_value());
    EXPECT_LT(*verdict.corrupt_bit, 8 * size);
  }
  EXPECT_FALSE(faults.next(0, {}, 0, true).corrupt_bit.has_value());
}

TEST(FaultModelTest, SelectorChoosesDirectionAndOpcode) {
  FaultModel faults = model({"from=b opcode=ACK drop=1", "opcode=READ_RESPONSE_MIDDLE dup=1"});
  EXPECT_TRUE(next(faults, 1, Opcode::kAcknowledge).drop);
  EXPECT_FALSE(next(faults, 0, Opcode::kAcknowledge).drop);
  EXPECT_FALSE(next(faults, 1, Opcode::kSendOnly).drop);
  EXPECT_TRUE(next(faults, 0, Opcode::kReadResponseMiddle).duplicate);
  EXPECT_FALSE(next(faults, 0, Opcode::kReadResponseLast).duplicate);
  EXPECT_FALSE(faults.next(1, std::vector<uint8_t>(20), 0, true).drop) << "too short for an opcode";
  EXPECT_EQ(faults.rules()[0].tally.matched, 1U);
  EXPECT_EQ(faults.rules()[0].tally.dropped, 1U);
  EXPECT_EQ(faults.rules()[1].tally.matched, 1U);
}

TEST(FaultModelTest, OpcodeIsFoundBehindIpv6Too) {
  FaultModel faults = model({"opcode=ACK drop=1"});
  std::vector<uint8_t> bytes(100);
  bytes[kIpAt] = 0x60;
  bytes[kBthAt + 20] = static_cast<uint8_t>(Opcode::kAcknowledge);
  EXPECT_TRUE(faults.next(0, bytes, 0, true).drop);
}

TEST(FaultModelTest, NthCountsWhatTheRuleMatchesOnTheWholeWire) {
  FaultModel faults = model({"opcode=SEND nth=2+5 drop=1"});
  std::vector<bool> dropped;
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_FALSE(next(faults, 0, Opcode::kAcknowledge).drop);
    dropped.push_back(next(faults, i % 2).drop);
  }
  EXPECT_EQ(dropped, (std::vector<bool>{false, true, false, false, true, false}));
  EXPECT_EQ(faults.rules()[0].tally.matched, 6U);
  EXPECT_TRUE(faults.set(rule_of("opcode=SEND nth=2+5 drop=1")));
  EXPECT_FALSE(next(faults).drop);
  EXPECT_TRUE(next(faults).drop) << "counted from when the rule was set";
}

TEST(FaultModelTest, SameSelectorReplacesAndEightAreTheLimit) {
  FaultModel faults = model({"drop=1", "opcode=ACK drop=1"});
  EXPECT_TRUE(faults.set(rule_of("dup=1")));
  ASSERT_EQ(faults.rules().size(), 2U);
  EXPECT_EQ(faults.rules()[0].rule.duplicate, 1);
  EXPECT_EQ(faults.rules()[0].rule.drop, 0);
  for (const auto* nth : {"1", "2", "3", "4", "5", "6"}) {
    EXPECT_TRUE(faults.set(rule_of(std::string("drop=1 nth=") + nth)));
  }
  EXPECT_FALSE(faults.set(rule_of("drop=1 nth=7")));
  EXPECT_TRUE(faults.set(rule_of("drop=5% nth=6"))) << "one of those there are";
}

TEST(FaultModelTest, ClearKeepsTheOthers) {
  FaultModel faults = model({"opcode=ACK drop=1", "drop=1 from=a", "opcode=ACK nth=3 drop=1"});
  EXPECT_EQ(faults.clear(rule_of("opcode=ACK drop=1").selector), 2U);
  ASSERT_EQ(faults.rules().size(), 1U);
  EXPECT_EQ(faults.rules()[0].rule.selector.from, 0U);
  EXPECT_EQ(faults.clear(rule_of("opcode=ACK drop=1").selector), 0U);
  EXPECT_EQ(faults.clear({}), 1U);
  EXPECT_FALSE(faults.active());
  EXPECT_FALSE(next(faults).drop);
}

TEST(FaultModelTest, DelaysAddUpAndJitterDoesNotReorder) {
  FaultModel faults = model({"delay=1ms jitter=1ms", "opcode=ACK delay=2ms"});
  Timestamp last_due = 0;
  bool varies = false;
  for (uint32_t i = 0; i < 1000; ++i) {
    const Timestamp now = 1'000'000 + 1000 * i;
    const auto verdict = next(faults, 0, Opcode::kSendOnly, now);
    EXPECT_GE(now + verdict.delay_ns, last_due);
    EXPECT_LE(verdict.delay_ns, 2'000'000U);
    varies = varies || verdict.delay_ns > 1'500'000;
    last_due = now + verdict.delay_ns;
  }
  EXPECT_TRUE(varies);
  EXPECT_GE(next(faults, 1, Opcode::kAcknowledge).delay_ns, 2'000'000U);
  EXPECT_EQ(faults.rules()[0].tally.delayed, 1001U);
  EXPECT_EQ(faults.rules()[1].tally.delayed, 1U);
}

TEST(FaultModelTest, NothingIsPutAsideWithoutRoom) {
  FaultModel faults = model({"reorder=1"});
  const auto bytes = frame(Opcode::kSendOnly);
  EXPECT_EQ(faults.next(0, bytes, 0, false).overtaken_by, 0U);
  EXPECT_EQ(faults.rules()[0].tally.reordered, 0U);
  EXPECT_NE(faults.next(0, bytes, 0, true).overtaken_by, 0U);
}

}  // namespace
}  // namespace verbena
