// Psn: a 24-bit packet sequence number with serial arithmetic.
//
// Half the space lies ahead of a PSN and half behind it (rules RC-PSN-1, RC-PSN-2): a - b is a
// signed distance in [-2^23, 2^23). There is no operator<, because no total order exists; `before`
// and `after` say what is meant.
#pragma once

#include <cstdint>

namespace verbena {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xFFFFFF;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator+=(uint32_t n) { return *this = *this + n; }
  constexpr Psn& operator++() { return *this += 1; }
  constexpr bool operator==(const Psn&) const = default;

  // Signed distance from `other` to this one: positive when this one is newer.
  constexpr int32_t operator-(Psn other) const {
    return static_cast<int32_t>((value_ - other.value_) << 8) >> 8;
  }
  constexpr bool before(Psn other) const { return *this - other < 0; }
  constexpr bool after(Psn other) const { return *this - other > 0; }

 private:
  uint32_t value_ = 0;
};

}  // namespace verbena
