// IdTable: owns objects by a small number. Numbers run from 1; 0 is never valid. Freed numbers are
// used again only after all others (so a stale number does not soon mean another object).
//
// Capacity is fixed at construction. find() is one bounds check and one load. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stack/base/assert.h"
#include "stack/base/fixed_ring.h"

namespace verbena {

template <typename T>
class IdTable {
 public:
  explicit IdTable(uint32_t capacity) : slots_(capacity + 1), free_(capacity) {
    for (uint32_t id = 1; id <= capacity; ++id) VERBENA_ASSERT(free_.push(id));
  }

  bool full() const { return free_.empty(); }

  // The number that add() will give next. Only when not full.
  uint32_t next_id() { return free_.front(); }

  uint32_t add(std::unique_ptr<T> object) {
    const uint32_t id = free_.front();
    free_.pop();
    slots_[id] = std::move(object);
    return id;
  }

  T* find(uint32_t id) const { return id < slots_.size() ? slots_[id].get() : nullptr; }

  void remove(uint32_t id) {
    VERBENA_ASSERT(find(id) != nullptr);
    slots_[id].reset();
    VERBENA_ASSERT(free_.push(id));
  }

  // visit(id, object) may remove that object.
  template <typename Visitor>
  void for_each(Visitor&& visit) {
    for (uint32_t id = 1; id < slots_.size(); ++id) {
      if (slots_[id]) visit(id, *slots_[id]);
    }
  }

 private:
  std::vector<std::unique_ptr<T>> slots_;
  FixedRing<uint32_t> free_;
};

}  // namespace verbena
