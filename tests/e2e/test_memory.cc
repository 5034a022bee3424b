#include "tests/e2e/test_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace verbena::e2e {
namespace {

constexpr size_t kPage = 4096;
constexpr uint8_t kGuardByte = 0xA5;

uint64_t pattern_word(uint64_t seed, uint64_t index) {
  return Random::mix(seed * 31 + index + 1);
}

}  // namespace

void Random::fill(std::span<uint8_t> bytes) {
  fill_pattern(bytes, next());
}

void fill_pattern(std::span<uint8_t> bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = pattern_word(seed, at / 8);
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, bytes.size() - at));
  }
}

size_t first_difference(std::span<const uint8_t> bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = pattern_word(seed, at / 8);
    const size_t length = std::min<size_t>(8, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, length) == 0) continue;
    const auto* expected = reinterpret_cast<const uint8_t*>(&word);
    for (size_t i = 0; i < length; ++i) {
      if (bytes[at + i] != expected[i]) return at + i;
    }
  }
  return bytes.size();
}

GuardedMemory::GuardedMemory(size_t bytes, size_t misalign)
    : mapped_((bytes + misalign + kPage - 1) / kPage * kPage + 2 * kPage),
      offset_(kPage + misalign),
      bytes_(bytes) {
  void* mapped = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("mmap of test memory failed");
  base_ = static_cast<uint8_t*>(mapped);
  std::memset(base_, kGuardByte, offset_);
  std::memset(base_ + offset_ + bytes_, kGuardByte, mapped_ - offset_ - bytes_);
}

GuardedMemory::~GuardedMemory() {
  munmap(base_, mapped_);
}

bool GuardedMemory::guards_intact() const {
  const auto is_guard = [](uint8_t byte) { return byte == kGuardByte; };
  return std::all_of(base_, base_ + offset_, is_guard) &&
         std::all_of(base_ + offset_ + bytes_, base_ + mapped_, is_guard);
}

}  // namespace verbena::e2e
