#include "stack/base/timer_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena {
namespace {

TEST(TimerHeapTest, FiresInOrderAndOnce) {
  TimerHeap heap(8);
  TimerEntry entries[3];
  heap.arm(entries[0], 30);
  heap.arm(entries[1], 10);
  heap.arm(entries[2], 20);
  EXPECT_EQ(heap.next(), 10U);
  EXPECT_EQ(heap.expire(9), nullptr);
  EXPECT_EQ(heap.expire(25), &entries[1]);
  EXPECT_EQ(heap.expire(25), &entries[2]);
  EXPECT_EQ(heap.expire(25), nullptr);
  EXPECT_EQ(heap.next(), 30U);
}

TEST(TimerHeapTest, LaterDeadlineIsNoticedWhenTheOldOneComes) {
  TimerHeap heap(2);
  TimerEntry entry;
  heap.arm(entry, 10);
  heap.arm(entry, 50);
  EXPECT_EQ(heap.expire(10), nullptr);
  EXPECT_EQ(heap.next(), 50U);
  EXPECT_EQ(heap.expire(50), &entry);
  EXPECT_EQ(heap.next(), kNever);
}

TEST(TimerHeapTest, EarlierDeadlineCountsAtOnce) {
  TimerHeap heap(2);
  TimerEntry entry;
  heap.arm(entry, 50);
  heap.arm(entry, 10);
  EXPECT_EQ(heap.next(), 10U);
  EXPECT_EQ(heap.expire(10), &entry);
  EXPECT_EQ(heap.expire(60), nullptr);
}

TEST(TimerHeapTest, DisarmedDoesNotFire) {
  TimerHeap heap(2);
  TimerEntry entry;
  heap.arm(entry, 10);
  heap.arm(entry, kNever);
  EXPECT_EQ(heap.expire(100), nullptr);
  EXPECT_EQ(heap.next(), kNever);
}

// Against a plain list: arm, disarm, remove and expire at random.
TEST(TimerHeapTest, AgreesWithAModel) {
  constexpr size_t kEntries = 50;
  TimerHeap heap(kEntries);
  std::vector<TimerEntry> entries(kEntries);
  std::vector<Timestamp> model(kEntries, kNever);
  uint64_t state = 1;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  Timestamp now = 0;
  for (int i = 0; i < 20000; ++i) {
    const size_t which = random(kEntries);
    switch (random(5)) {
      case 0:
        heap.remove(entries[which]);
        model[which] = kNever;
        break;
      case 1:
        heap.arm(entries[which], kNever);
        model[which] = kNever;
        break;
      default:
        model[which] = now + random(100);
        heap.arm(entries[which], model[which]);
    }
    if (random(4) != 0) continue;
    now += random(30);
    while (TimerEntry* entry = heap.expire(now)) {
      const auto index = static_cast<size_t>(entry - entries.data());
      ASSERT_LE(model[index], now);
      model[index] = kNever;
    }
    ASSERT_GT(*std::min_element(model.begin(), model.end()), now);
    ASSERT_LE(heap.next(), *std::min_element(model.begin(), model.end()));
  }
}

}  // namespace
}  // namespace verbena
