// Test memory: random and reproducible contents, and guard bytes around a buffer.
//
// Everything derives from a seed, so a failure can be repeated and no second copy of a large buffer
// is needed for comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::e2e {

// A small generator (splitmix64): good enough for contents, sizes and offsets of tests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix(state_ += kStep); }
  // A number from 0 to limit - 1.
  size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }
  void fill(std::span<uint8_t> bytes);

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  uint64_t state_;
};

// Position-dependent contents: byte i depends on (seed, i) alone.
void fill_pattern(std::span<uint8_t> bytes, uint64_t seed);
// Index of the first byte that differs from fill_pattern's, or bytes.size().
size_t first_difference(std::span<const uint8_t> bytes, uint64_t seed);

// Pages of their own with `bytes` usable bytes that begin `misalign` bytes after a page boundary.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, size_t misalign);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::span<uint8_t> bytes() { return {base_ + offset_, bytes_}; }
  bool guards_intact() const;

 private:
  uint8_t* base_ = nullptr;
  size_t mapped_ = 0;
  size_t offset_ = 0;
  size_t bytes_ = 0;
};

}  // namespace verbena::e2e
