#include "tools/sim/memory.h"

#include <bit>
#include <cstring>

namespace verbena::sim {
namespace {

// Patterns are made and compared word by word: they are half of what a simulation costs.
constexpr size_t kWord = sizeof(uint64_t);
static_assert(std::endian::native == std::endian::little);

uint64_t pattern_word(uint32_t seed, size_t index) {
  const uint64_t x = (index + 1) * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03;
  return x ^ x >> 29;
}

}  // namespace

uint8_t Memory::pattern(uint32_t seed, size_t index) {
  return static_cast<uint8_t>(pattern_word(seed, index / kWord) >> (index % kWord * 8));
}

void Memory::fill(uint64_t va, size_t bytes, uint32_t seed) {
  uint8_t* to = at(va);
  size_t i = 0;
  for (; i + kWord <= bytes; i += kWord) {
    const uint64_t word = pattern_word(seed, i / kWord);
    std::memcpy(to + i, &word, kWord);
  }
  for (; i < bytes; ++i) to[i] = pattern(seed, i);
}

bool Memory::holds(uint64_t va, size_t bytes, uint32_t seed) const {
  const uint8_t* from = bytes_.data() + (va - base_);
  size_t i = 0;
  for (; i + kWord <= bytes; i += kWord) {
    uint64_t word;
    std::memcpy(&word, from + i, kWord);
    if (word != pattern_word(seed, i / kWord)) return false;
  }
  for (; i < bytes; ++i) {
    if (from[i] != pattern(seed, i)) return false;
  }
  return true;
}

void Memory::answer_next(MemResult result, uint32_t count, Access access) {
  answer_ = result;
  answers_left_ = count;
  answers_to_ = access;
}

bool Memory::intercepted(Access access, MemResult& result) {
  ++accesses_;
  if (answers_left_ == 0 || (answers_to_ != Access::kBoth && answers_to_ != access)) return false;
  --answers_left_;
  result = answer_;
  return true;
}

bool Memory::inside(uint64_t va, uint64_t bytes) {
  const bool in =
      va >= base_ && va - base_ <= bytes_.size() && bytes <= bytes_.size() - (va - base_);
  if (!in) ++out_of_range_;
  return in;
}

MemResult Memory::read(uint64_t va, std::span<const MutableBytes> to) {
  MemResult result;
  if (intercepted(Access::kRead, result)) return result;
  uint64_t total = 0;
  for (const MutableBytes& piece : to) total += piece.size;
  if (!inside(va, total)) return MemResult::kFault;
  for (const MutableBytes& piece : to) {
    std::memcpy(piece.data, at(va), piece.size);
    va += piece.size;
  }
  return MemResult::kDone;
}

MemResult Memory::write(uint64_t va, std::span<const ConstBytes> from, bool ordered) {
  MemResult result;
  if (on_write) on_write();
  if (intercepted(Access::kWrite, result)) return result;
  uint64_t total = 0;
  for (const ConstBytes& piece : from) total += piece.size;
  if (!inside(va, total)) return MemResult::kFault;
  if (recording_) writes_.push_back({va, total, ordered, from.size()});
  for (const ConstBytes& piece : from) {
    std::memcpy(at(va), piece.data, piece.size);
    va += piece.size;
  }
  return MemResult::kDone;
}

}  // namespace verbena::sim
