// The hand-over from the control thread to the polling thread. Also built with thread sanitizer.

#include "dpdk/command_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace verbena {
namespace {

// A polling thread: spins, or sleeps whenever it has nothing to do.
class Poller {
 public:
  Poller(CommandQueue& queue, bool sleeps) : queue_(queue), sleeps_(sleeps) {
    thread_ = std::thread([this] { loop(); });
  }
  ~Poller() {
    queue_.run([this] { stop_ = true; });
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void loop() {
    while (!stop_) {
      if (queue_.pending()) {
        queue_.run_pending();
      } else if (sleeps_) {
        sleep();
      } else {
        std::this_thread::yield();
      }
    }
  }
  void sleep() {
    if (queue_.prepare_sleep()) {
      pollfd wake{queue_.wake_fd(), POLLIN, 0};
      // A lost wake-up is a failed test, not a hang.
      EXPECT_EQ(poll(&wake, 1, 20'000), 1);
    }
    queue_.end_sleep();
  }

  CommandQueue& queue_;
  const bool sleeps_;
  bool stop_ = false;  // polling thread only
  std::thread thread_;
};

TEST(CommandQueueTest, RunsOnThePollingThreadBeforeItReturns) {
  CommandQueue queue;
  Poller poller(queue, false);
  std::thread::id where;
  queue.run([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, poller.id());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CommandQueueTest, CommandsOfOneThreadRunInOrder) {
  CommandQueue queue;
  Poller poller(queue, false);
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) queue.run([&order, i] { order.push_back(i); });
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(CommandQueueTest, SleepingThreadIsWokenEveryTime) {
  CommandQueue queue;
  Poller poller(queue, true);
  int count = 0;  // only ever touched by the polling thread
  for (int i = 0; i < 5000; ++i) queue.run([&] { ++count; });
  int seen = 0;
  queue.run([&] { seen = count; });
  EXPECT_EQ(seen, 5000);
}

TEST(CommandQueueTest, SeveralPostersLoseNothing) {
  CommandQueue queue;
  Poller poller(queue, true);
  int count = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 500; ++i) queue.run([&] { ++count; });
    });
  }
  for (auto& poster : posters) poster.join();
  int seen = 0;
  queue.run([&] { seen = count; });
  EXPECT_EQ(seen, 2000);
}

TEST(CommandQueueTest, PendingOnlyWhileSomethingWaits) {
  CommandQueue queue;
  EXPECT_FALSE(queue.pending());
  EXPECT_TRUE(queue.prepare_sleep());
  queue.end_sleep();
  std::thread poster([&] { queue.run([] {}); });
  while (!queue.pending()) std::this_thread::yield();
  EXPECT_FALSE(queue.prepare_sleep());
  queue.end_sleep();
  queue.run_pending();
  poster.join();
  EXPECT_FALSE(queue.pending());
}

TEST(CommandQueueTest, WhatACommandThrowsIsThrownToItsPoster) {
  CommandQueue queue;
  Poller poller(queue, true);
  EXPECT_THROW(queue.run([] { throw std::bad_alloc(); }), std::bad_alloc);
  bool ran = false;
  queue.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace verbena
