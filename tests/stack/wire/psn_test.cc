// PSN arithmetic at the wrap and at the half of the space.
#include "stack/wire/psn.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

constexpr uint32_t kLastPsn = 0xFFFFFF;
constexpr int32_t kHalf = 1 << 23;

TEST(Psn, KeepsTheLow24Bits) {
  EXPECT_EQ(Psn(0x01000000).value(), 0U);
  EXPECT_EQ(Psn(0xFFFFFFFF).value(), kLastPsn);
  EXPECT_EQ(Psn(0x01000005), Psn(5));
}

TEST(Psn, AdditionAndSubtractionWrap) {
  EXPECT_EQ(Psn(kLastPsn) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1U, Psn(kLastPsn));
  EXPECT_EQ(Psn(0xFFFFFE) + 5, Psn(3));
  EXPECT_EQ(Psn(3) - 5U, Psn(0xFFFFFE));
  Psn psn(kLastPsn);
  EXPECT_EQ(++psn, Psn(0));
  psn += 0x1000001;
  EXPECT_EQ(psn, Psn(1));
}

TEST(Psn, DistanceIsSignedAndCrossesTheWrap) {
  EXPECT_EQ(Psn(7) - Psn(7), 0);
  EXPECT_EQ(Psn(8) - Psn(7), 1);
  EXPECT_EQ(Psn(7) - Psn(8), -1);
  EXPECT_EQ(Psn(0) - Psn(kLastPsn), 1);
  EXPECT_EQ(Psn(kLastPsn) - Psn(0), -1);
  EXPECT_EQ(Psn(0x10) - Psn(0xFFFFF0), 0x20);
}

TEST(Psn, HalfTheSpaceIsAheadAndHalfBehind) {
  for (const uint32_t base : {0U, 1U, 0x7FFFFFU, 0x800000U, 0x800001U, kLastPsn}) {
    const Psn psn(base);
    EXPECT_EQ(psn + (kHalf - 1) - psn, kHalf - 1);
    EXPECT_TRUE((psn + (kHalf - 1)).after(psn));
    EXPECT_EQ(psn + kHalf - psn, -kHalf);
    EXPECT_TRUE((psn + kHalf).before(psn));
    EXPECT_TRUE((psn + (kHalf + 1)).before(psn));
  }
}

TEST(Psn, BeforeAndAfterAreStrict) {
  EXPECT_FALSE(Psn(5).before(Psn(5)));
  EXPECT_FALSE(Psn(5).after(Psn(5)));
  EXPECT_TRUE(Psn(kLastPsn).before(Psn(0)));
  EXPECT_TRUE(Psn(0).after(Psn(kLastPsn)));
}

TEST(Psn, DistanceUndoesAddition) {
  for (int32_t distance = -kHalf; distance < kHalf; distance += 4099) {
    for (const uint32_t base : {0U, 0x7FFFFFU, 0x800000U, kLastPsn}) {
      const Psn psn(base);
      ASSERT_EQ(psn + static_cast<uint32_t>(distance) - psn, distance) << base;
    }
  }
}

}  // namespace
}  // namespace verbena
