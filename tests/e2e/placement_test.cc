// The order in which data becomes visible: a program that polls the last byte of a WRITE finds the
// bytes before it in place, and a completion is seen only after its data.
//
// The test posts a burst and looks at once, on one core, while the daemon stores on the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargest = 64 * 1024;
constexpr size_t kBurst = 16;  // messages posted together
constexpr size_t kStride = kLargest + 5;
constexpr auto kTimePerSize = std::chrono::milliseconds(400);
constexpr uint64_t kAtLeast = 100;   // bursts per size, however slow the machine
constexpr uint32_t kSpins = 20'000;  // without giving the processor away

uint8_t byte_of(uint64_t burst) {
  return static_cast<uint8_t>(burst % 255 + 1);
}

// Spins until the condition holds.
void spin_until(const std::function<bool()>& condition, const char* what) {
  const auto deadline = Clock::now() + kWait;
  for (uint32_t spins = 1; !condition(); ++spins) {
    if (spins % kSpins != 0) continue;
    if (Clock::now() > deadline) fail(std::string(what) + " never came");
    std::this_thread::yield();
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
    path.rd_atomic = 16;
    return path;
  }

  // Calls burst(1), burst(2) ... for a while; each returns how many of its messages were seen
  // before their bytes were in place.
  static void expect_none_broken(const std::function<size_t(uint64_t)>& burst) {
    const auto end = Clock::now() + kTimePerSize;
    uint64_t count = 0;
    size_t broken = 0;
    while (count < kAtLeast || Clock::now() < end) broken += burst(++count);
    EXPECT_EQ(broken, 0u) << "of " << count * kBurst << " messages";
  }

  std::span<uint8_t> slot(Buffer& buffer, size_t i) {
    return buffer.bytes().subspan(i * kStride, GetParam());
  }
  // One request per slot, with wr_id and immediate the slot's number.
  std::vector<SendRequest> burst_of(std::initializer_list<ibv_wr_opcode> opcodes) {
    std::vector<SendRequest> requests;
    for (size_t i = 0; i < kBurst; ++i) {
      const ibv_wr_opcode opcode = opcodes.begin()[i % opcodes.size()];
      requests.push_back({i,
                          opcode,
                          IBV_SEND_SIGNALED,
                          {source.sge(i * kStride, GetParam())},
                          target.va() + i * kStride,
                          target.rkey()});
    }
    return requests;
  }
  void wait_sends() {
    for (size_t i = 0; i < kBurst; ++i) wait_success(pair.a.send_cq(), "send");
  }

  Connected pair{QpOptions{}, path()};
  Buffer source{pair.a.pd(), kBurst* kStride};
  Buffer target{pair.b.pd(), kBurst* kStride, 3};
};

INSTANTIATE_TEST_SUITE_P(Sizes, PlacementTest,
                         testing::Values(8, 9, 16, 63, 64, 65, 256, 1024, 4095, 4096, 4097, 8192,
                                         16384, 40'001, kLargest),
                         testing::PrintToStringParamName());

TEST_P(PlacementTest, LastByteOfAWriteComesLast) {
  const auto requests = burst_of({IBV_WR_RDMA_WRITE});
  expect_none_broken([&](uint64_t burst) {
    for (size_t i = 0; i < kBurst; ++i) std::ranges::fill(slot(source, i), byte_of(burst));
    post_send(pair.a, requests);
    size_t broken = 0;
    for (size_t i = 0; i < kBurst; ++i) {
      const auto area = slot(target, i);
      std::atomic_ref last(area.back());
      spin_until([&] { return last.load(std::memory_order_acquire) == byte_of(burst); },
                 "the last byte of a WRITE");
      if (count_others(area, byte_of(burst)) != 0) ++broken;
    }
    wait_sends();
    return broken;
  });
}

TEST_P(PlacementTest, ReceiveCompletionComesAfterItsData) {
  const auto requests = burst_of({IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM});
  expect_none_broken([&](uint64_t burst) {
    for (size_t i = 0; i < kBurst; ++i) {
      std::ranges::fill(slot(source, i), byte_of(burst));
      const ibv_sge sge = target.sge(i * kStride, GetParam());
      post_recv(pair.b, i, std::span(&sge, 1));
    }
    post_send(pair.a, requests);
    size_t broken = 0;
    for (size_t i = 0; i < kBurst; ++i) {
      ibv_wc wc{};
      spin_until([&] { return ibv_poll_cq(pair.b.recv_cq(), 1, &wc) == 1; }, "a receive");
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id != i) fail("a receive is wrong");
      if (count_others(slot(target, i), byte_of(burst)) != 0) ++broken;
    }
    wait_sends();
    return broken;
  });
}

TEST_P(PlacementTest, ReadCompletionComesAfterItsData) {
  const auto requests = burst_of({IBV_WR_RDMA_READ});
  expect_none_broken([&](uint64_t burst) {
    for (size_t i = 0; i < kBurst; ++i) std::ranges::fill(slot(target, i), byte_of(burst));
    post_send(pair.a, requests);
    size_t broken = 0;
    for (size_t i = 0; i < kBurst; ++i) {
      ibv_wc wc{};
      spin_until([&] { return ibv_poll_cq(pair.a.send_cq(), 1, &wc) == 1; }, "a READ");
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id != i) fail("a READ is wrong");
      if (count_others(slot(source, i), byte_of(burst)) != 0) ++broken;
    }
    return broken;
  });
}

}  // namespace
}  // namespace verbena::e2e
