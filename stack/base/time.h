// Time as the engine sees it: nanoseconds handed in by the caller. There is no clock in stack/.
//
// Timestamp counts from an arbitrary origin that never moves during the life of a Device; it never
// goes backwards. kNever is later than every other time.
#pragma once

#include <cstdint>
#include <limits>

namespace verbena {

using Timestamp = uint64_t;   // ns since the caller's origin
using DurationNs = uint64_t;  // ns

inline constexpr Timestamp kNever = std::numeric_limits<uint64_t>::max();

}  // namespace verbena
