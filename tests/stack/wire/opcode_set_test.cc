// Names of opcodes: each known one has one, and families are their first words.
#include "stack/wire/opcode_set.h"

#include <gtest/gtest.h>

#include <map>

namespace verbena {
namespace {

bool has(const OpcodeSet& set, Opcode opcode) {
  return set.test(static_cast<uint8_t>(opcode));
}

TEST(OpcodeSetTest, EveryKnownOpcodeHasANameOfItsOwnInItsTransport) {
  const std::map<Transport, std::string> prefixes = {
      {Transport::kRc, "RC_"}, {Transport::kUc, "UC_"}, {Transport::kUd, "UD_"}};
  uint32_t known = 0;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    ++known;
    const std::string word = opcode_word(info);
    EXPECT_TRUE(opcodes_named(word).test(opcode)) << word;
    const auto prefix = prefixes.find(info.transport);
    if (prefix == prefixes.end()) continue;
    const OpcodeSet exact = opcodes_named(prefix->second + word);
    EXPECT_TRUE(exact.test(opcode)) << word;
    EXPECT_EQ(exact.count(), 1U) << word;
  }
  EXPECT_GT(known, 30U);
}

TEST(OpcodeSetTest, NamesAreThoseOfTheSpecification) {
  EXPECT_TRUE(has(opcodes_named("ACK"), Opcode::kAcknowledge));
  EXPECT_EQ(opcodes_named("ACK").count(), 1U);
  EXPECT_FALSE(has(opcodes_named("SEND_ONLY"), Opcode::kSendOnlyImm));
  EXPECT_TRUE(has(opcodes_named("READ_RESPONSE_MIDDLE"), Opcode::kReadResponseMiddle));
  EXPECT_TRUE(has(opcodes_named("rdma_write_only"), Opcode::kWriteOnly));
  EXPECT_TRUE(has(opcodes_named("WRITE_LAST_WITH_IMMEDIATE"), Opcode::kWriteLastImm));
  EXPECT_TRUE(has(opcodes_named("COMPARE_SWAP"), Opcode::kCompareSwap));
  EXPECT_TRUE(has(opcodes_named("CNP"), Opcode::kCnp));
}

TEST(OpcodeSetTest, FirstWordsAreAFamily) {
  const OpcodeSet responses = opcodes_named("READ_RESPONSE");
  EXPECT_EQ(responses.count(), 4U);
  EXPECT_FALSE(has(responses, Opcode::kReadRequest));
  EXPECT_EQ(opcodes_named("READ").count(), 5U);
  EXPECT_TRUE(has(opcodes_named("SEND"), Opcode::kUdSendOnly));
  EXPECT_FALSE(has(opcodes_named("RC_SEND"), Opcode::kUdSendOnly));
  EXPECT_EQ(opcodes_named("UD_SEND").count(), 2U);
}

TEST(OpcodeSetTest, OtherNamesNameNothing) {
  for (const char* name : {"", "SEN", "SEND_", "READ_RESPONSE_MID", "RC_", "UD_WRITE", "PING"}) {
    EXPECT_TRUE(opcodes_named(name).none()) << name;
  }
}

}  // namespace
}  // namespace verbena
