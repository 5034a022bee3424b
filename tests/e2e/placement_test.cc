// The order in which data becomes visible: a program that polls the last byte of a WRITE finds the
// bytes before it in place, and a completion is seen only after its data.
//
// One thread looks while another posts; the daemon, a third party, stores the bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargest = 64 * 1024;
constexpr auto kTimePerSize = std::chrono::milliseconds(400);
constexpr uint64_t kAtLeast = 200;  // messages per size, however slow the machine

uint8_t byte_of(uint64_t round) {
  return static_cast<uint8_t>(round % 255 + 1);
}

// Waits until the byte has the value.
void wait_byte(const uint8_t& byte, uint8_t value) {
  const auto deadline = Clock::now() + kWait;
  for (uint32_t spins = 0;; ++spins) {
    if (std::atomic_ref(const_cast<uint8_t&>(byte)).load(std::memory_order_acquire) == value) {
      return;
    }
    if (spins % 1024 == 1023) {
      if (Clock::now() > deadline) fail("the last byte of a WRITE never came");
      std::this_thread::yield();
    }
  }
}

// How many bytes differ from the value, looked at from the end: the youngest bytes first.
size_t count_others(std::span<const uint8_t> bytes, uint8_t value) {
  size_t others = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    if (*const_cast<const volatile uint8_t*>(&bytes[i]) != value) ++others;
  }
  return others;
}

class PlacementTest : public testing::TestWithParam<size_t> {
 protected:
  static PathOptions path() {
    PathOptions path;
    path.mtu = IBV_MTU_4096;
    return path;
  }

  // Calls round(1), round(2) ... for a while; returns how many there were.
  static uint64_t repeat(const std::function<void(uint64_t)>& round) {
    const auto end = Clock::now() + kTimePerSize;
    uint64_t count = 0;
    while (count < kAtLeast || Clock::now() < end) round(++count);
    return count;
  }

  Connected pair{QpOptions{}, path()};
  Buffer source{pair.a.pd(), kLargest + 8, 0};
  Buffer target{pair.b.pd(), kLargest + 8, 3};
};

INSTANTIATE_TEST_SUITE_P(Sizes, PlacementTest,
                         testing::Values(8, 9, 16, 63, 64, 65, 256, 1024, 4095, 4096, 4097, 8192,
                                         16384, 40'001, kLargest),
                         testing::PrintToStringParamName());

TEST_P(PlacementTest, LastByteOfAWriteComesLast) {
  const size_t bytes = GetParam();
  std::atomic<uint64_t> posted = 0, looked = 0, broken = 0;
  std::atomic<bool> done = false;
  std::thread looker([&] {
    const auto area = target.bytes().first(bytes);
    for (uint64_t round = 1; !done; ++round) {
      while (posted.load(std::memory_order_acquire) < round && !done) std::this_thread::yield();
      if (done) return;
      wait_byte(area[bytes - 1], byte_of(round));
      if (count_others(area, byte_of(round)) != 0) ++broken;
      looked.store(round, std::memory_order_release);
    }
  });
  const uint64_t rounds = repeat([&](uint64_t round) {
    std::fill_n(source.bytes().begin(), bytes, byte_of(round));
    post_send(pair.a, {round,
                       IBV_WR_RDMA_WRITE,
                       IBV_SEND_SIGNALED,
                       {source.sge(0, bytes)},
                       target.va(),
                       target.rkey()});
    posted.store(round, std::memory_order_release);
    wait_success(pair.a.send_cq(), "WRITE");
    const auto deadline = Clock::now() + kWait;
    while (looked.load(std::memory_order_acquire) < round) {
      if (Clock::now() > deadline) fail("the looking thread is stuck");
      std::this_thread::yield();
    }
  });
  done = true;
  looker.join();
  EXPECT_EQ(broken, 0u) << "of " << rounds << " WRITEs";
  EXPECT_GE(looked, kAtLeast);
  RecordProperty("writes", static_cast<int>(rounds));
}

TEST_P(PlacementTest, ReceiveCompletionComesAfterItsData) {
  const size_t bytes = GetParam();
  uint64_t broken = 0;
  std::atomic<uint64_t> wanted = 0;  // the looker is done with all rounds before this one
  std::atomic<bool> done = false;
  std::thread sender([&] {
    for (uint64_t round = 1;; ++round) {
      while (wanted.load(std::memory_order_acquire) < round && !done) std::this_thread::yield();
      if (done) return;
      std::fill_n(source.bytes().begin(), bytes, byte_of(round));
      const bool write = round % 2 == 0;
      post_send(pair.a, {round,
                         write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
                         IBV_SEND_SIGNALED,
                         {source.sge(0, bytes)},
                         target.va(),
                         target.rkey()});
      wait_success(pair.a.send_cq(), "send");
    }
  });
  const ibv_sge sge = target.sge(0, bytes);
  repeat([&](uint64_t round) {
    post_recv(pair.b, round, std::span(&sge, 1));
    wanted.store(round, std::memory_order_release);
    wait_success(pair.b.recv_cq(), "receive");
    if (count_others(target.bytes().first(bytes), byte_of(round)) != 0) ++broken;
  });
  done = true;
  sender.join();
  EXPECT_EQ(broken, 0u);
}

TEST_P(PlacementTest, ReadCompletionComesAfterItsData) {
  const size_t bytes = GetParam();
  uint64_t broken = 0;
  repeat([&](uint64_t round) {
    std::fill_n(target.bytes().begin(), bytes, byte_of(round));
    post_send(pair.a, {round,
                       IBV_WR_RDMA_READ,
                       IBV_SEND_SIGNALED,
                       {source.sge(0, bytes)},
                       target.va(),
                       target.rkey()});
    wait_success(pair.a.send_cq(), "READ");
    if (count_others(source.bytes().first(bytes), byte_of(round)) != 0) ++broken;
  });
  EXPECT_EQ(broken, 0u);
}

}  // namespace
}  // namespace verbena::e2e
