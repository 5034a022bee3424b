// The wire port: order, loopback, room, faults, and that every buffer comes back.

#include "dpdk/wire_port.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk/eal.h"
#include "tests/support/temp_dir.h"

namespace verbena {
namespace {

constexpr MacAddr kLeft{{2, 0, 0, 0, 0, 1}};
constexpr MacAddr kRight{{2, 0, 0, 0, 0, 2}};
constexpr uint32_t kHeader = 14;  // where the test's own number is

class WirePortTest : public testing::Test {
 protected:
  static FaultRule rule(std::string_view words) {
    FaultRule parsed;
    const Refusal refusal = parse_fault_rule(words, {"left", "right"}, parsed);
    EXPECT_FALSE(refusal) << refusal.what;
    return parsed;
  }
  void make(std::initializer_list<std::string_view> rules) {
    std::vector<FaultRule> faults;
    for (const auto words : rules) faults.push_back(rule(words));
    wire_.reset();  // the queues have names
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
  make({"drop=1"});
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
  make({"dup=1"});
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
  make({"drop=10% dup=10% reorder=10% corrupt=10% seed=9"});
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
  make({"reorder=1"});
  ASSERT_TRUE(send(left(), kRight, 7));
  const Timestamp now = clock_.now();
  EXPECT_TRUE(numbers(right()).empty());
  EXPECT_NE(left().next_flush(), kNever) << "the polling thread must not sleep on it for ever";
  left().flush(now);
  left().flush(now + 1'000'000);
  EXPECT_EQ(numbers(right()), std::vector<uint32_t>{7});
  EXPECT_EQ(left().next_flush(), kNever);
}

TEST_F(WirePortTest, ReorderedFramesArePassedByUpToSixtyFour) {
  make({"nth=1 reorder=1 reorder-by=64 seed=1"});
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(send(left(), kRight, i));
  auto got = numbers(right());
  ASSERT_EQ(got.size(), 100U);
  const auto first = std::find(got.begin(), got.end(), 0U) - got.begin();
  EXPECT_GT(first, 4) << "another seed is needed";
  EXPECT_LE(first, 64);
  got.erase(got.begin() + first);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
}

TEST_F(WirePortTest, AllReorderedIsNoDeadlock) {
  make({"reorder=1 reorder-by=64"});
  for (uint32_t i = 0; i < 500; ++i) ASSERT_TRUE(send(left(), kRight, i));
  left().flush(kNever);
  EXPECT_EQ(numbers(right()).size(), 500U);
}

TEST_F(WirePortTest, DelayedFramesArriveWhenDueAndInOrder) {
  make({"from=left delay=1s"});
  const Timestamp before = clock_.now();
  for (uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send(left(), kRight, i));
  const Timestamp after = clock_.now();
  EXPECT_TRUE(numbers(right()).empty());
  EXPECT_FALSE(right().busy());
  EXPECT_GE(left().next_flush(), before + 1'000'000'000);
  left().flush(before + 999'999'999);
  EXPECT_TRUE(numbers(right()).empty());
  left().flush(after + 1'000'000'000);
  EXPECT_EQ(numbers(right()), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(left().next_flush(), kNever);
  EXPECT_EQ(left().counters().faults_delayed, 10U);
  ASSERT_TRUE(send(right(), kLeft, 1));
  EXPECT_EQ(numbers(left()).size(), 1U) << "the other direction is not delayed";
}

TEST_F(WirePortTest, FramesThatARuleDoesNotDelayPassThoseItDoes) {
  make({"nth=2 delay=1ms"});
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(send(left(), kRight, i));
  EXPECT_EQ(numbers(right()), (std::vector<uint32_t>{0, 2, 3}));
  left().flush(kNever);
  EXPECT_EQ(numbers(right()), std::vector<uint32_t>{1});
}

TEST_F(WirePortTest, FramesThatAreDueComeBeforeThoseThatAreSentLater) {
  make({"nth=1 delay=1us"});
  ASSERT_TRUE(send(left(), kRight, 0));
  for (const Timestamp due = clock_.now() + 1'000; clock_.now() <= due;) {
  }
  ASSERT_TRUE(send(left(), kRight, 1));
  EXPECT_EQ(numbers(right()), (std::vector<uint32_t>{0, 1}));
}

TEST_F(WirePortTest, DelayedFramesArePassedByOthersOfTheSameDelay) {
  make({"delay=1s", "nth=1 reorder=1 reorder-by=8 seed=1"});
  for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(send(left(), kRight, i));
  EXPECT_TRUE(numbers(right()).empty()) << "all of them are delayed";
  left().flush(kNever);
  auto got = numbers(right());
  ASSERT_EQ(got.size(), 20U);
  const auto first = std::find(got.begin(), got.end(), 0U) - got.begin();
  EXPECT_GT(first, 0);
  EXPECT_LE(first, 8);
  got.erase(got.begin() + first);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
}

TEST_F(WirePortTest, DelayedFramesTakeRoomOnTheWire) {
  make({"delay=10s dup=1"});
  uint32_t sent = 0;
  while (send(left(), kRight, sent)) ++sent;
  EXPECT_GT(sent, 400U);
  EXPECT_LT(sent, Wire::kQueueFrames);
  EXPECT_FALSE(left().has_room());
  // Nor may the other end fill the same queue with frames to itself.
  uint32_t own = 0;
  while (send(right(), kRight, own)) ++own;
  EXPECT_LT(own, 8U);
  left().flush(kNever);
  EXPECT_EQ(numbers(right()).size(), 2 * sent + own);
  EXPECT_TRUE(left().has_room());
  EXPECT_TRUE(send(left(), kRight, 0));
}

TEST_F(WirePortTest, ChangedRulesLetGoOfWhatWasKept) {
  make({"delay=10s", "nth=3 reorder=1"});
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(send(left(), kRight, i));
  EXPECT_TRUE(wire_->set_fault(rule("drop=1")));
  EXPECT_EQ(numbers(right()), (std::vector<uint32_t>{0, 1, 2}));
  ASSERT_TRUE(send(left(), kRight, 9));
  EXPECT_TRUE(numbers(right()).empty());
  EXPECT_EQ(wire_->clear_faults({}), 2U);
  ASSERT_TRUE(send(left(), kRight, 4));
  EXPECT_EQ(numbers(right()), std::vector<uint32_t>{4});
}

// A capture sees each frame as it was sent, and hears of both of its copies.
TEST_F(WirePortTest, CaptureLearnsWhatBecameOfEachFrame) {
  const std::string path = testing::TempDir() + "/verbena-wire-port-test.pcapng";
  std::string wrong;
  UniqueFd file = open_capture_file(path, wrong);
  ASSERT_TRUE(file) << wrong;
  const std::string names[] = {"left", "right"};
  Capture capture(path, std::move(file), names, 0);
  make({"nth=1 dup=1", "nth=2 drop=1"});
  left().capture_to(&capture);
  right().capture_to(&capture);
  for (uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(send(left(), kRight, i));
  ASSERT_TRUE(send(left(), kLeft, 2));
  for (WirePort* port : {&right(), &left()}) {
    std::array<rte_mbuf*, 8> frames;
    const uint32_t count = port->rx_burst(frames);
    const std::vector<RxVerdict> verdicts(count, {.kind = RxVerdict::Kind::kExecuted});
    port->received(std::span(frames).first(count), verdicts);
    rte_pktmbuf_free_bulk(frames.data(), count);
  }
  EXPECT_EQ(capture.finish().written, 3U);
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::filesystem::remove(path);
  EXPECT_NE(bytes.find("wire: delivered twice; right: expected PSN: executed; right: expected PSN"),
            std::string::npos);
  EXPECT_NE(bytes.find("wire: dropped"), std::string::npos);
  EXPECT_NE(bytes.find("; left: expected PSN: executed"), std::string::npos);
  EXPECT_EQ(bytes.find("not received"), std::string::npos);
}

TEST_F(WirePortTest, SameSeedSameFrames) {
  std::vector<std::vector<uint8_t>> runs[2];
  for (auto& run : runs) {
    make({"drop=20% dup=20% corrupt=20% seed=4"});
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
  const verbena::test::TempDir directory;
  const verbena::Eal eal(directory.path());
  return RUN_ALL_TESTS();
}
