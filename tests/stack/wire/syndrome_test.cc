// AETH syndromes, the RNR timer table and the local ACK timeout.
#include "stack/wire/syndrome.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(Syndrome, AllValuesHaveTheKindOfTheirTwoBits) {
  for (unsigned value = 0; value < 0x80; ++value) {
    const auto syndrome = static_cast<uint8_t>(value);
    const SyndromeKind expected = value < 0x20   ? SyndromeKind::kAck
                                  : value < 0x40 ? SyndromeKind::kRnrNak
                                  : value < 0x60 ? SyndromeKind::kReserved
                                                 : SyndromeKind::kNak;
    EXPECT_EQ(syndrome_kind(syndrome), expected) << value;
    EXPECT_EQ(syndrome_value(syndrome), value % 0x20) << value;
  }
}

TEST(Syndrome, NakCodes) {
  EXPECT_EQ(nak_syndrome(NakCode::kPsnSequence), 0x60);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRequest), 0x61);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteAccess), 0x62);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteOperational), 0x63);
}

TEST(Syndrome, RnrNakCarriesTheTimerCode) {
  EXPECT_EQ(rnr_syndrome(0), 0x20);
  EXPECT_EQ(rnr_syndrome(25), 0x39);  // as in gem5's golden RNR NAK
  EXPECT_EQ(rnr_syndrome(31), 0x3F);
  EXPECT_EQ(syndrome_kind(rnr_syndrome(0xFF)), SyndromeKind::kRnrNak);
}

TEST(Syndrome, RnrDelays) {
  constexpr double kMilliseconds[32] = {
      655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,
      0.48,   0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
      20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (unsigned code = 0; code < 32; ++code) {
    EXPECT_NEAR(static_cast<double>(rnr_delay(static_cast<uint8_t>(code))),
                kMilliseconds[code] * 1e6, 0.5)
        << code;
  }
}

TEST(Syndrome, AckTimeouts) {
  EXPECT_EQ(ack_timeout(0), 0U);  // no timeout
  EXPECT_EQ(ack_timeout(1), 8'192U);
  EXPECT_EQ(ack_timeout(8), 1'048'576U);
  EXPECT_EQ(ack_timeout(14), 67'108'864U);
  EXPECT_EQ(ack_timeout(18), 1'073'741'824U);
  EXPECT_EQ(ack_timeout(31), 8'796'093'022'208U);
  for (unsigned code = 2; code < 32; ++code) {
    EXPECT_EQ(ack_timeout(static_cast<uint8_t>(code)),
              2 * ack_timeout(static_cast<uint8_t>(code - 1)));
  }
}

}  // namespace
}  // namespace verbena
