// The AETH syndrome byte (IBTA vol. 1 ch. 9.7.5.1): bits 6:5 select ACK, RNR NAK or NAK; bits 4:0
// carry the credit count, the RNR timer code or the NAK code.
#pragma once

#include <cstdint>

#include "stack/base/time.h"

namespace verbena {

// End-to-end credits are not used: the value that says so.
inline constexpr uint8_t kAckNoCredits = 0x1F;

enum class NakCode : uint8_t {
  kPsnSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperational = 3,
};

enum class SyndromeKind : uint8_t { kAck, kRnrNak, kReserved, kNak };

constexpr SyndromeKind syndrome_kind(uint8_t syndrome) {
  return static_cast<SyndromeKind>((syndrome >> 5) & 3);
}
constexpr uint8_t syndrome_value(uint8_t syndrome) {
  return syndrome & 0x1F;
}
constexpr uint8_t nak_syndrome(NakCode code) {
  return static_cast<uint8_t>(0x60 | static_cast<uint8_t>(code));
}
constexpr uint8_t rnr_syndrome(uint8_t timer_code) {
  return static_cast<uint8_t>(0x20 | (timer_code & 0x1F));
}

// Delay of an RNR timer code 0..31, in ns (IBTA table "Encoding for RNR NAK Timer Field").
constexpr DurationNs rnr_delay(uint8_t code) {
  constexpr uint32_t kHundredthsOfMs[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                            16,    24,   32,   48,    64,    96,    128,   192,
                                            256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                            4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return static_cast<DurationNs>(kHundredthsOfMs[code & 0x1F]) * 10'000;
}

// Local ACK timeout code 1..31 in ns: 4.096 us * 2^code (C9-140). Code 0 means no timeout.
constexpr DurationNs ack_timeout(uint8_t code) {
  return code == 0 ? 0 : static_cast<DurationNs>(4096) << (code & 0x1F);
}

}  // namespace verbena
