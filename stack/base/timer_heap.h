// TimerHeap: deadlines of many owners, at most one entry each, the earliest on top.
//
// Re-arming to a later time is free: the entry stays where it is and is looked at again when its
// old time comes (an ACK re-arms its QP's timer for every packet; most timers never fire). An owner
// embeds TimerEntry. Capacity is reserved at construction, so arming never allocates. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/base/assert.h"
#include "stack/base/time.h"

namespace verbena {

struct TimerEntry {
  static constexpr uint32_t kNotQueued = UINT32_MAX;

  Timestamp deadline = kNever;  // when the owner wants to be called
  Timestamp queued = kNever;    // the key in the heap, at or before the deadline
  uint32_t position = kNotQueued;
  void* owner = nullptr;  // of the embedding object; set once
};

class TimerHeap {
 public:
  explicit TimerHeap(size_t capacity) { heap_.reserve(capacity); }

  void arm(TimerEntry& entry, Timestamp deadline) {
    entry.deadline = deadline;
    if (deadline == kNever) return;  // the entry, if queued, is discarded when it comes up
    if (entry.position == TimerEntry::kNotQueued) {
      VERBENA_ASSERT(heap_.size() < heap_.capacity());
      entry.queued = deadline;
      entry.position = static_cast<uint32_t>(heap_.size());
      heap_.push_back(&entry);
      sift_up(entry.position);
    } else if (deadline < entry.queued) {
      entry.queued = deadline;
      sift_up(entry.position);
    }
  }

  // Takes the entry out for good; the owner may be destroyed afterwards.
  void remove(TimerEntry& entry) {
    entry.deadline = kNever;
    if (entry.position != TimerEntry::kNotQueued) take_out(entry.position);
  }

  // The earliest time at which expire() may have something to do.
  Timestamp next() const { return heap_.empty() ? kNever : heap_.front()->queued; }

  // An entry whose deadline has come, taken out of the heap with its deadline reset, or nullptr.
  TimerEntry* expire(Timestamp now) {
    while (!heap_.empty() && heap_.front()->queued <= now) {
      TimerEntry* entry = heap_.front();
      const Timestamp deadline = entry->deadline;
      take_out(0);
      if (deadline <= now) {
        entry->deadline = kNever;
        return entry;
      }
      arm(*entry, deadline);
    }
    return nullptr;
  }

 private:
  void place(uint32_t position, TimerEntry* entry) {
    heap_[position] = entry;
    entry->position = position;
  }

  void take_out(uint32_t position) {
    TimerEntry* gone = heap_[position];
    TimerEntry* last = heap_.back();
    heap_.pop_back();
    gone->position = TimerEntry::kNotQueued;
    gone->queued = kNever;
    if (gone == last) return;
    place(position, last);
    sift_up(position);
    sift_down(last->position);
  }

  void sift_up(uint32_t position) {
    TimerEntry* entry = heap_[position];
    while (position > 0) {
      const uint32_t parent = (position - 1) / 2;
      if (heap_[parent]->queued <= entry->queued) break;
      place(position, heap_[parent]);
      position = parent;
    }
    place(position, entry);
  }

  void sift_down(uint32_t position) {
    TimerEntry* entry = heap_[position];
    const auto size = static_cast<uint32_t>(heap_.size());
    for (;;) {
      uint32_t child = 2 * position + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1]->queued < heap_[child]->queued) ++child;
      if (heap_[child]->queued >= entry->queued) break;
      place(position, heap_[child]);
      position = child;
    }
    place(position, entry);
  }

  std::vector<TimerEntry*> heap_;
};

}  // namespace verbena
