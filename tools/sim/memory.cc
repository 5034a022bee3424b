#include "tools/sim/memory.h"

#include <cstring>

namespace verbena::sim {

uint8_t Memory::pattern(uint32_t seed, size_t index) {
  const auto i = static_cast<uint32_t>(index);
  return static_cast<uint8_t>((i * 0x9E3779B1U + seed * 0x85EBCA6BU) >> 24);
}

void Memory::fill(uint64_t va, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i) at(va)[i] = pattern(seed, i);
}

bool Memory::holds(uint64_t va, size_t bytes, uint32_t seed) const {
  const uint8_t* p = bytes_.data() + (va - base_);
  for (size_t i = 0; i < bytes; ++i) {
    if (p[i] != pattern(seed, i)) return false;
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
