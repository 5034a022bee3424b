// Input: the bytes that a fuzzer makes, read as a list of choices. Behind the end each choice is 0,
// so every input means something and a shorter one means less.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace verbena::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }

  template <std::unsigned_integral T>
  T number() {
    T value = 0;
    const std::span<const uint8_t> taken = bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  uint8_t byte() { return number<uint8_t>(); }
  bool flag() { return (byte() & 1) != 0; }
  // One of 0 ... count - 1, for counts up to 256.
  uint32_t below(size_t count) { return static_cast<uint32_t>(byte() % count); }
  template <typename Container>
  auto& pick(Container& from) {
    return from[below(std::size(from))];
  }
  // At most so many of the bytes that are left.
  std::span<const uint8_t> bytes(size_t most) {
    const auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

// What must be true, whatever the input: otherwise the process ends, and the fuzzer keeps the
// input.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what);
  std::abort();
}

}  // namespace verbena::fuzz
