// FixedRing: a first-in first-out queue whose capacity is fixed at construction. Pushing never
// allocates; a full ring refuses. One thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/assert.h"

namespace verbena {

template <typename T>
class FixedRing {
 public:
  explicit FixedRing(size_t capacity) : slots_(std::bit_ceil(capacity == 0 ? 1 : capacity)) {}

  bool empty() const { return head_ == tail_; }
  bool full() const { return size() == slots_.size(); }
  size_t size() const { return tail_ - head_; }
  void clear() { head_ = tail_; }

  [[nodiscard]] bool push(const T& value) {
    if (full()) return false;
    slots_[tail_++ & mask()] = value;
    return true;
  }
  T& front() {
    VERBENA_ASSERT(!empty());
    return slots_[head_ & mask()];
  }
  // The i-th oldest, i < size().
  T& operator[](size_t i) { return slots_[(head_ + i) & mask()]; }
  const T& operator[](size_t i) const { return slots_[(head_ + i) & mask()]; }
  void pop() {
    VERBENA_ASSERT(!empty());
    ++head_;
  }

 private:
  size_t mask() const { return slots_.size() - 1; }

  std::vector<T> slots_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

}  // namespace verbena
