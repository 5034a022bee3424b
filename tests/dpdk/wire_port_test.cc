// The wire port: order, loopback, room, faults, and that every buffer comes back.

#include "dpdk/wire_port.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "dpdk/eal.h"

namespace verbena {
namespace {

constexpr MacAddr kLeft{{2, 0, 0, 0, 0, 1}};
constexpr MacAddr kRight{{2, 0, 0, 0, 0, 2}};
constexpr uint32_t kHeader = 14;  // where the test's own number is

class WirePortTest : public testing::Test {
 protected:
  void make(const FaultSettings& faults) {
    wire_ = std::make_unique<Wire>(std::array<MacAddr, 2>{kLeft, kRight}, faults, clock_);
  }
  WirePort& left() { return wire_->end(0); }
  WirePort& right() { return wire_->end(1); }

  static bool send(WirePort& port, const MacAddr& to, uint32_t number, uint32_t bytes = 100) {
    TxFrame frame;
    if (!port.allocate(bytes, frame)) return false;
    std::memset(frame.data, 0xA5, bytes);
    std::memcpy(frame.data, to.bytes.data(), to.bytes.size());
    std::memcpy(frame.data + kHeader, &number, sizeof number);
    port.commit(frame, bytes);
    return true;
  }

  struct Received {
    uint32_t number;
    std::vector<uint8_t> bytes;
  };
  static std::vector<Received> receive(WirePort& port) {
    std::vector<Received> all;
    std::array<rte_mbuf*, 32> frames;
    while (const uint32_t count = port.rx_burst(frames)) {
      for (uint32_t i = 0; i < count; ++i) {
        const auto* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
        Received one{0, {data, data + frames[i]->data_len}};
        std::memcpy(&one.number, data + kHeader, sizeof one.number);
        all.push_back(std::move(one));
      }
      rte_pktmbuf_free_bulk(frames.data(), count);
    }
    return all;
  }
  static std::vector<uint32_t> numbers(WirePort& port) {
    std::vector<uint32_t> all;
    for (const auto& frame : receive(port)) all.push_back(frame.number);
    return all;
  }

  Clock clock_;
  std::unique_ptr<Wire> wire_;
};

TEST_F(WirePortTest, DeliversToTheOtherEndInOrder) {
  make({});
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(send(left(), kRight, i));
  EXPECT_TRUE(right().busy());
  EXPECT_FALSE(left().busy());
  const auto got = numbers(right());
  ASSERT_EQ(got.size(), 100U);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  EXPECT_FALSE(right().busy());
  EXPECT_EQ(left().counters().tx_frames, 100U);
}

TEST_F(WirePortTest, FramesToOneselfTurnRoundUntouched) {
  make({.drop = 1});
  for (uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send(left(), kLeft, i));
  EXPECT_EQ(numbers(left()).size(), 10U);
  ASSERT_TRUE(send(left(), kRight, 0));
  EXPECT_TRUE(numbers(right()).empty());
  EXPECT_EQ(left().counters().faults_dropped, 1U);
}

TEST_F(WirePortTest, EverySizeArrivesWhole) {
  make({});
  for (const uint32_t bytes : {60U, 1500U, kMaxFrameBytes - 1, kMaxFrameBytes}) {
    ASSERT_TRUE(send(left(), kRight, 1, bytes));
    const auto got = receive(right());
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].bytes.size(), bytes);
    EXPECT_EQ(got[0].bytes.back(), 0xA5);
  }
}

TEST_F(WirePortTest, FullWireRefusesAndLosesNothing) {
  make({});
  uint32_t sent = 0;
  while (send(left(), kRight, sent)) ++sent;
  EXPECT_GT(sent, 900U);
  EXPECT_EQ(left().counters().tx_full, 1U);
  EXPECT_EQ(numbers(right()).size(), sent);
  EXPECT_TRUE(send(left(), kRight, 0)) << "there is room again";
}

TEST_F(WirePortTest, AllocatedFramesKeepTheirRoom) {
  make({.duplicate = 1});
  std::vector<TxFrame> frames;
  TxFrame frame;
  while (left().allocate(100, frame)) frames.push_back(frame);
  EXPECT_GT(frames.size(), 400U);
  for (auto& allocated : frames) {
    std::memcpy(allocated.data, kRight.bytes.data(), kRight.bytes.size());
    left().commit(allocated, 100);
  }
  EXPECT_EQ(receive(right()).size(), 2 * frames.size());
}

TEST_F(WirePortTest, ReleasedFramesComeBack) {
  make({});
  for (int i = 0; i < 100'000; ++i) {
    TxFrame frame;
    ASSERT_TRUE(left().allocate(kMaxFrameBytes, frame)) << i;
    left().release(frame);
  }
}

TEST_F(WirePortTest, FaultsAreCountedAndNoBufferIsLost) {
  make({.drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .seed = 9});
  uint64_t received = 0;
  uint64_t damaged = 0;
  uint64_t backwards = 0;
  uint32_t last = 0;
  constexpr uint32_t kFrames = 200'000;  // many times the pool
  for (uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(send(left(), kRight, i)) << i;
    if (i % 64 != 63) continue;
    for (const auto& frame : receive(right())) {
      ++received;
      const bool whole = std::all_of(frame.bytes.begin() + kHeader + 4, frame.bytes.end(),
                                     [](uint8_t byte) { return byte == 0xA5; });
      if (!whole) ++damaged;
      if (whole && frame.number < last) ++backwards;
      if (whole) last = frame.number;
    }
  }
  left().flush(kNever);
  received += receive(right()).size();
  const PortCounters& counters = left().counters();
  EXPECT_EQ(counters.tx_frames, kFrames);
  EXPECT_EQ(received, kFrames - counters.faults_dropped + counters.faults_duplicated);
  EXPECT_NEAR(static_cast<double>(counters.faults_dropped), 0.1 * kFrames, 0.01 * kFrames);
  EXPECT_NEAR(static_cast<double>(counters.faults_duplicated), 0.09 * kFrames, 0.01 * kFrames);
  EXPECT_NEAR(static_cast<double>(counters.faults_corrupted), 0.09 * kFrames, 0.01 * kFrames);
  EXPECT_GT(counters.faults_reordered, kFrames / 20);
  EXPECT_GT(damaged, counters.faults_corrupted / 2);
  EXPECT_GT(backwards, kFrames / 50);
}

TEST_F(WirePortTest, ReorderedFrameIsReleasedWhenNothingFollows) {
  make({.reorder = 1});
  ASSERT_TRUE(send(left(), kRight, 7));
  const Timestamp now = clock_.now();
  EXPECT_TRUE(numbers(right()).empty());
  EXPECT_TRUE(left().busy()) << "the polling thread must not sleep on it";
  left().flush(now);
  left().flush(now + 1'000'000);
  EXPECT_EQ(numbers(right()), std::vector<uint32_t>{7});
  EXPECT_FALSE(left().busy());
}

TEST_F(WirePortTest, SameSeedSameFrames) {
  std::vector<std::vector<uint8_t>> runs[2];
  for (auto& run : runs) {
    make({.drop = 0.2, .duplicate = 0.2, .reorder = 0, .corrupt = 0.2, .seed = 4});
    for (uint32_t i = 0; i < 200; ++i) ASSERT_TRUE(send(left(), kRight, i));
    for (auto& frame : receive(right())) run.push_back(std::move(frame.bytes));
    wire_.reset();
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace verbena

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  char dir[] = "/tmp/verbena-wire-XXXXXX";
  if (mkdtemp(dir) == nullptr) return 1;
  int status;
  {
    const verbena::Eal eal(dir);
    status = RUN_ALL_TESTS();
  }
  std::filesystem::remove_all(dir);
  return status;
}
