// Memory: a client's address space as a vector of bytes at a base address.
//
// A test can make the next accesses answer kFault or kLater, and can look at the writes in the
// order in which they were made. An access outside of the vector is a fault, and is counted: the
// engine checks ranges before it asks, so `out_of_range()` other than 0 means a hole in those
// checks unless the test registered more than there is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stack/mem/client_memory.h"

namespace verbena::sim {

class Memory : public ClientMemory {
 public:
  struct Write {
    uint64_t va;
    uint64_t bytes;
    bool ordered;
    size_t pieces;
  };
  enum class Access : uint8_t { kRead, kWrite, kBoth };

  Memory(uint64_t base, size_t bytes) : base_(base), bytes_(bytes) {}

  uint64_t base() const { return base_; }
  size_t size() const { return bytes_.size(); }
  uint8_t* at(uint64_t va) { return bytes_.data() + (va - base_); }
  std::span<uint8_t> range(uint64_t va, size_t bytes) { return {at(va), bytes}; }

  // Fills with a pattern that depends on `seed` and the position in the range.
  void fill(uint64_t va, size_t bytes, uint32_t seed);
  // The pattern's byte at `index`.
  static uint8_t pattern(uint32_t seed, size_t index);
  // True if the range holds what fill(va, bytes, seed) would have put there.
  bool holds(uint64_t va, size_t bytes, uint32_t seed) const;

  // The next `count` accesses of that kind answer `result` and copy nothing.
  void answer_next(MemResult result, uint32_t count, Access access = Access::kBoth);

  // Answers of answer_next() are still to come.
  bool answering() const { return answers_left_ != 0; }

  // Called at each write, before it is made.
  std::function<void()> on_write;

  void record_writes(bool on) { recording_ = on; }
  const std::vector<Write>& writes() const { return writes_; }
  uint32_t out_of_range() const { return out_of_range_; }
  uint64_t accesses() const { return accesses_; }

  MemResult read(uint64_t va, std::span<const MutableBytes> to) override;
  MemResult write(uint64_t va, std::span<const ConstBytes> from, bool ordered) override;

 private:
  bool intercepted(Access access, MemResult& result);
  bool inside(uint64_t va, uint64_t bytes);

  uint64_t base_;
  std::vector<uint8_t> bytes_;
  std::vector<Write> writes_;
  bool recording_ = false;
  MemResult answer_ = MemResult::kDone;
  uint32_t answers_left_ = 0;
  Access answers_to_ = Access::kBoth;
  uint32_t out_of_range_ = 0;
  uint64_t accesses_ = 0;
};

}  // namespace verbena::sim
