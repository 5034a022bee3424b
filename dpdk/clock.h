// Clock: the time-stamp counter as nanoseconds, for the polling thread.
//
// Starts near zero, never goes backwards within one Clock. One reader thread per Clock (a second
// thread may copy it: the copy has the same origin).
#pragma once

#include <rte_cycles.h>

#include <algorithm>
#include <cstdint>

#include "stack/base/time.h"

namespace verbena {

class Clock {
 public:
  Clock() : origin_(rte_rdtsc()) {
    // ns = (cycles * mult) >> 32; exact to 1 part in 2^30.
    mult_ = static_cast<uint64_t>((static_cast<unsigned __int128>(1'000'000'000) << 32) /
                                  rte_get_tsc_hz());
  }

  Timestamp now() {
    const uint64_t cycles = rte_rdtsc() - origin_;
    const auto ns = static_cast<Timestamp>(static_cast<unsigned __int128>(cycles) * mult_ >> 32);
    // A counter that differs a little between cores must not turn time back.
    last_ = std::max(last_, ns);
    return last_;
  }

 private:
  uint64_t origin_;
  uint64_t mult_;
  Timestamp last_ = 1;  // 0 is never a time
};

}  // namespace verbena
