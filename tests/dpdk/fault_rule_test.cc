// The words of fault rules: what is taken, printed again the same, and refused with the right form.

#include "dpdk/fault_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const DeviceNames kDevices = {"verbena0", "verbena1"};

FaultRule rule(std::string_view words) {
  FaultRule parsed;
  const Refusal refusal = parse_fault_rule(words, kDevices, parsed);
  EXPECT_FALSE(refusal) << refusal.what;
  return parsed;
}

Refusal refusal(std::string_view words) {
  FaultRule ignored;
  const Refusal answer = parse_fault_rule(words, kDevices, ignored);
  EXPECT_TRUE(answer) << words << " was taken";
  return answer;
}

TEST(FaultRuleTest, SharesAreFractionsOrPercentages) {
  const FaultRule parsed = rule("drop=0.01,dup=2%,reorder=1,corrupt=0.5%,seed=0x10");
  EXPECT_DOUBLE_EQ(parsed.drop, 0.01);
  EXPECT_DOUBLE_EQ(parsed.duplicate, 0.02);
  EXPECT_DOUBLE_EQ(parsed.reorder, 1);
  EXPECT_DOUBLE_EQ(parsed.corrupt, 0.005);
  EXPECT_EQ(parsed.seed, 16U);
  EXPECT_EQ(parsed.selector.from, FaultSelector::kBoth);
  EXPECT_TRUE(parsed.selector.any_opcode());
}

TEST(FaultRuleTest, BlanksAndCommasSeparate) {
  const FaultRule parsed =
      rule("  from=verbena1 opcode=read_response,nth=7+3  delay=1.5ms jitter=10us");
  EXPECT_EQ(parsed.selector.from, 1U);
  EXPECT_EQ(parsed.selector.opcode, "READ_RESPONSE");
  EXPECT_EQ(parsed.selector.opcodes.count(), 4U);
  EXPECT_THAT(parsed.selector.nth, ElementsAre(3, 7));
  EXPECT_EQ(parsed.delay_ns, 1'500'000U);
  EXPECT_EQ(parsed.jitter_ns, 10'000U);
}

TEST(FaultRuleTest, WordsComeBackAsTheyWere) {
  for (const char* words :
       {"drop=5%", "drop=0.1% dup=100%", "reorder=5% reorder-by=64 corrupt=1% delay=10us",
        "from=verbena0 opcode=ACK nth=2 drop=100%", "opcode=UD_SEND nth=1+2+9 corrupt=100% seed=4",
        "delay=1.5ms jitter=250ns", "delay=10s"}) {
    EXPECT_EQ(fault_words(rule(words), kDevices), words);
  }
}

TEST(FaultRuleTest, MoreThanAllIsAnsweredWithWhatWasMeant) {
  const Refusal answer = refusal("drop=7");
  EXPECT_THAT(answer.what, HasSubstr("'drop=7' is more than all packets"));
  EXPECT_EQ(answer.instead, "drop=7% or drop=0.07 for 7 in a hundred, drop=1 for all");
  EXPECT_THAT(refusal("dup=101%").instead, HasSubstr("dup=5%"));
  EXPECT_THAT(refusal("corrupt=-1").what, HasSubstr("not a share"));
  EXPECT_THAT(refusal("drop=nan").what, HasSubstr("not a share"));
  EXPECT_THAT(refusal("drop").instead, HasSubstr("drop=5% or drop=0.05"));
}

TEST(FaultRuleTest, RefusalsSayWhatToWrite) {
  EXPECT_THAT(refusal("").what, HasSubstr("nothing is said to happen"));
  EXPECT_THAT(refusal("opcode=ACK nth=2").instead, HasSubstr("drop=P"));
  EXPECT_THAT(refusal("drop=0").what, HasSubstr("nothing is said to happen"));
  EXPECT_THAT(refusal("loss=1%").instead, HasSubstr("drop=P"));
  EXPECT_THAT(refusal("from=eth0 drop=1").instead, HasSubstr("from=verbena0 or from=verbena1"));
  EXPECT_THAT(refusal("opcode=PING drop=1").instead, HasSubstr("SEND_ONLY"));
  EXPECT_THAT(refusal("nth=0 drop=1").instead, HasSubstr("nth=3"));
  EXPECT_THAT(refusal("nth=1+ drop=1").instead, HasSubstr("nth=3+7"));
  EXPECT_THAT(refusal("nth=1+2+3+4+5+6+7+8+9 drop=1").instead, HasSubstr("at most 8"));
  EXPECT_THAT(refusal("delay=10").instead, HasSubstr("delay=10us"));
  EXPECT_THAT(refusal("delay=-1us").instead, HasSubstr("delay=10us"));
  EXPECT_THAT(refusal("delay=11s").instead, HasSubstr("delay=10s"));
  EXPECT_THAT(refusal("delay=1us jitter=2us").what, HasSubstr("longer than the delay"));
  EXPECT_THAT(refusal("reorder=1% reorder-by=65").what, HasSubstr("1 to 64"));
  EXPECT_THAT(refusal("drop=1% seed=x").instead, HasSubstr("seed=7"));
}

TEST(FaultRuleTest, OfTwoValuesNoneIsTaken) {
  EXPECT_EQ(refusal("drop=1 drop=2%").what, "'drop=2%' is the second drop of this rule");
  EXPECT_THAT(refusal("nth=3,drop=1,nth=7").instead, HasSubstr("nth= once"));
  FaultSelector selector;
  EXPECT_TRUE(parse_fault_selector("nth=1 nth=2", kDevices, selector));
}

TEST(FaultRuleTest, SelectorCoversRulesWithItsWords) {
  FaultSelector acks;
  EXPECT_FALSE(parse_fault_selector("opcode=ACK", kDevices, acks));
  EXPECT_TRUE(acks.covers(rule("opcode=ACK nth=2 drop=1").selector));
  EXPECT_TRUE(acks.covers(rule("from=verbena1 opcode=ack drop=1").selector));
  EXPECT_FALSE(acks.covers(rule("drop=1").selector));
  EXPECT_TRUE(FaultSelector{}.covers(rule("from=verbena1 drop=1").selector));
  EXPECT_TRUE(acks.same(rule("opcode=RC_ACK drop=1").selector)) << "ACK is of RC alone";
  EXPECT_FALSE(acks.same(rule("opcode=ACK nth=1 drop=1").selector));
  EXPECT_THAT(parse_fault_selector("drop=1", kDevices, acks).instead, HasSubstr("from=DEVICE"));
}

}  // namespace
}  // namespace verbena
