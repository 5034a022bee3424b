#include "stack/mem/mr_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace verbena {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

Mr region(uint64_t iova, uint64_t length, uint32_t access = 7) {
  Mr mr;
  mr.pd = 3;
  mr.access = access;
  mr.va = 0x5000;
  mr.iova = iova;
  mr.length = length;
  return mr;
}

TEST(MrTableTest, TranslatesByIova) {
  MrTable table(4, 1);
  const Key key = *table.add(region(0x1000, 0x100));
  Translation out;
  ASSERT_EQ(table.translate(key, 3, 0x1010, 0xF0, 1, out), MrError::kNone);
  EXPECT_EQ(out.va, 0x5010U);
}

TEST(MrTableTest, EachCheckHasItsError) {
  MrTable table(4, 1);
  const Key key = *table.add(region(0x1000, 0x100, 3));
  Translation out;
  EXPECT_EQ(table.translate(key ^ 1, 3, 0x1000, 1, 0, out), MrError::kUnknownKey);
  EXPECT_EQ(table.translate(0, 3, 0x1000, 1, 0, out), MrError::kUnknownKey);
  EXPECT_EQ(table.translate(kMax & 0xFFFFFFFF, 3, 0x1000, 1, 0, out), MrError::kUnknownKey);
  EXPECT_EQ(table.translate(key, 4, 0x1000, 1, 0, out), MrError::kWrongPd);
  // All of the rights that are asked for, not any of them.
  EXPECT_EQ(table.translate(key, 3, 0x1000, 1, 1 | 4, out), MrError::kNoAccess);
  EXPECT_EQ(table.translate(key, 3, 0x0FFF, 1, 0, out), MrError::kOutOfRange);
  EXPECT_EQ(table.translate(key, 3, 0x1100, 1, 0, out), MrError::kOutOfRange);
  EXPECT_EQ(table.translate(key, 3, 0x1001, 0x100, 0, out), MrError::kOutOfRange);
  EXPECT_EQ(table.translate(key, 3, 0x1100, 0, 0, out), MrError::kNone);
}

TEST(MrTableTest, ArithmeticDoesNotOverflow) {
  MrTable table(4, 1);
  const Key key = *table.add(region(kMax - 100, 100));
  Translation out;
  EXPECT_EQ(table.translate(key, 3, kMax - 1, 1, 0, out), MrError::kNone);
  EXPECT_EQ(table.translate(key, 3, kMax - 1, 2, 0, out), MrError::kOutOfRange);
  EXPECT_EQ(table.translate(key, 3, kMax - 50, kMax, 0, out), MrError::kOutOfRange);
  EXPECT_EQ(table.translate(key, 3, 5, kMax - 10, 0, out), MrError::kOutOfRange);
}

// Registering and deregistering in a loop goes round the indices; an old key must not come back
// with the round.
TEST(MrTableTest, StaleKeysStayStaleWhenIndicesComeRound) {
  MrTable table(256, 9);
  const Key old = *table.add(region(0, 1));
  table.remove(old);
  for (int i = 0; i < 255 * 256; ++i) {
    const Key key = *table.add(region(0, 1));
    ASSERT_NE(key, old) << "after " << i;
    table.remove(key);
  }
}

TEST(MrTableTest, ReplaceGivesANewKeyOfTheSameIndex) {
  MrTable table(4, 255);
  Key key = *table.add(region(0, 1));
  for (int i = 0; i < 600; ++i) {
    const Key fresh = table.replace(key, region(0, 1));
    EXPECT_NE(fresh, key);
    EXPECT_EQ(fresh >> 8, key >> 8);
    EXPECT_EQ(table.find(key), nullptr);
    key = fresh;
  }
}

TEST(MrTableTest, FullTableRefuses) {
  MrTable table(2, 0);
  ASSERT_TRUE(table.add(region(0, 1)).ok());
  ASSERT_TRUE(table.add(region(0, 1)).ok());
  EXPECT_EQ(table.add(region(0, 1)).error(), ENOMEM);
}

}  // namespace
}  // namespace verbena
