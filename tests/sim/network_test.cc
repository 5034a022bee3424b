// Links and switches: when a frame arrives, which arrive, and that all are accounted for.
#include "tools/sim/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena::sim {
namespace {

constexpr MacAddr kHere{{2, 0, 0, 0, 0, 1}};
constexpr MacAddr kThere{{2, 0, 0, 0, 0, 2}};
constexpr uint64_t kGigabit = 1'000'000'000;

class Recorder : public Receiver {
 public:
  struct Arrival {
    Timestamp at;
    uint32_t number;
    uint32_t bytes;
    uint32_t flips;
  };
  void receive(FramePtr frame, Timestamp now) override {
    arrivals.push_back({now, frame->data[6], frame->bytes, frame->flips});
  }
  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> all;
    for (const Arrival& arrival : arrivals) all.push_back(arrival.number);
    return all;
  }
  std::vector<Arrival> arrivals;
};

// A frame with its number where a source address would be.
FramePtr frame_to(Network& network, const MacAddr& mac, uint8_t number, uint32_t bytes) {
  FramePtr frame = network.frames().take(bytes);
  std::fill_n(frame->data.get(), bytes, uint8_t{0});
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame->data.get());
  frame->data[6] = number;
  return frame;
}

struct OneLink {
  explicit OneLink(const LinkConfig& config, uint64_t seed = 1)
      : link(network.add_link(config, end, seed)) {}
  void send(uint32_t count, uint32_t bytes = 100, Timestamp at = 0) {
    for (uint32_t i = 0; i < count; ++i) {
      link.send(frame_to(network, kThere, static_cast<uint8_t>(next++), bytes), at);
    }
  }
  void expect_conserved() const {
    const LinkStats& s = link.stats();
    EXPECT_EQ(s.offered + s.duplicated, s.overflowed + s.blackholed + s.dropped + s.arrived);
    EXPECT_EQ(s.arrived, end.arrivals.size());
    EXPECT_EQ(network.frames().outstanding(), 0U);
    EXPECT_EQ(network.next_time(), kNever);
  }
  Recorder end;
  Network network;
  Link& link;
  uint32_t next = 0;
};

TEST(LinkTest, FrameTakesItsTimeToBeSentAndToTravel) {
  OneLink t({.bits_per_second = kGigabit, .delay = 5'000});
  t.send(2, 125);  // 1000 bits: a microsecond each
  t.network.run_until(1'000'000);
  ASSERT_EQ(t.end.arrivals.size(), 2U);
  EXPECT_EQ(t.end.arrivals[0].at, 6'000U);
  EXPECT_EQ(t.end.arrivals[1].at, 7'000U);
  t.expect_conserved();
}

TEST(LinkTest, WithoutBandwidthOnlyTheDelay) {
  OneLink t({.delay = 5'000});
  t.send(2, 125, 10);
  EXPECT_EQ(t.network.next_time(), 5'010U);
  t.network.run_until(5'010);
  EXPECT_EQ(t.end.numbers(), (std::vector<uint32_t>{0, 1}));
  t.expect_conserved();
}

TEST(LinkTest, QueueIsFiniteAndDropsTheLast) {
  OneLink t({.bits_per_second = kGigabit, .queue_bytes = 1'000});
  EXPECT_TRUE(t.link.has_room(1'000));
  t.send(12, 100);
  EXPECT_FALSE(t.link.has_room(1));
  EXPECT_EQ(t.link.queued_bytes(), 1'000U);
  t.network.run_until(1'000'000);
  EXPECT_EQ(t.end.numbers(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(t.link.stats().overflowed, 2U);
  t.expect_conserved();
}

TEST(LinkTest, BlackholeTakesAllForAWhile) {
  OneLink t({.faults = {.blackhole_from = 100, .blackhole_until = 200}});
  for (Timestamp at = 0; at < 300; at += 50) t.send(1, 100, at);
  t.network.run_until(1'000);
  EXPECT_EQ(t.end.numbers(), (std::vector<uint32_t>{0, 1, 4, 5}));
  EXPECT_EQ(t.link.stats().blackholed, 2U);
  t.expect_conserved();
}

TEST(LinkTest, DropAndDuplicateAboutAsOftenAsTold) {
  OneLink t({.faults = {.drop_ppm = 100'000, .duplicate_ppm = 200'000}});
  t.send(10'000);
  t.network.run_until(1'000'000);
  EXPECT_NEAR(static_cast<double>(t.link.stats().dropped), 1'000, 150);
  EXPECT_NEAR(static_cast<double>(t.link.stats().duplicated), 1'800, 200);
  t.expect_conserved();
}

TEST(LinkTest, CorruptAndTruncateSayWhatTheyDid) {
  OneLink t({.faults = {.corrupt_ppm = 500'000, .truncate_ppm = 500'000}});
  t.send(1'000);
  t.network.run_until(1'000'000);
  uint64_t flipped = 0;
  uint64_t cut = 0;
  for (const auto& arrival : t.end.arrivals) {
    flipped += arrival.flips != 0;
    cut += arrival.bytes != 100;
    EXPECT_GE(arrival.bytes, 14U);
    EXPECT_LE(arrival.flips, 3U);
  }
  EXPECT_EQ(flipped, t.link.stats().corrupted);
  EXPECT_EQ(cut, t.link.stats().truncated);
  EXPECT_GT(flipped, 400U);
  EXPECT_GT(cut, 400U);
  t.expect_conserved();
}

TEST(LinkTest, ReorderedFrameIsOvertakenByAsManyAsTold) {
  OneLink t({.faults = {.reorder_ppm = 100'000, .reorder_frames = 8, .reorder_hold = 1'000}});
  for (uint32_t i = 0; i < 250; ++i) t.send(1, 100, i);
  t.network.run_until(1'000'000);
  ASSERT_EQ(t.end.arrivals.size(), 250U);
  uint32_t late = 0;
  uint32_t newest = 0;
  for (const uint32_t number : t.end.numbers()) {
    late += number < newest;
    EXPECT_LE(newest, number + 8 + late) << "held back for too long";
    newest = std::max(newest, number);
  }
  EXPECT_GT(late, 10U);
  t.expect_conserved();
}

TEST(LinkTest, HeldFrameArrivesWhenNothingOvertakesIt) {
  OneLink t({.delay = 10, .faults = {.reorder_ppm = 1'000'000, .reorder_hold = 1'000}});
  t.send(1);
  t.network.run_until(1'000'000);
  ASSERT_EQ(t.end.arrivals.size(), 1U);
  EXPECT_EQ(t.end.arrivals[0].at, 1'010U);
  t.expect_conserved();
}

TEST(LinkTest, JitterKeepsTheOrder) {
  OneLink t({.delay = 1'000, .faults = {.jitter = 5'000}});
  for (uint32_t i = 0; i < 100; ++i) t.send(1, 100, i * 100);
  t.network.run_until(1'000'000);
  ASSERT_EQ(t.end.arrivals.size(), 100U);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(t.end.arrivals[i].number, i);
  EXPECT_GT(t.end.arrivals.back().at, 99U * 100 + 1'000);
  t.expect_conserved();
}

TEST(LinkTest, OneFaultSwitchedOffLeavesTheOthersWhereTheyWere) {
  const auto dropped = [](uint32_t duplicate_ppm) {
    OneLink t({.faults = {.drop_ppm = 100'000, .duplicate_ppm = duplicate_ppm}}, 7);
    t.send(200);
    t.network.run_until(1'000'000);
    std::vector<uint32_t> numbers = t.end.numbers();
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
  };
  EXPECT_EQ(dropped(0), dropped(300'000));
}

TEST(SwitchTest, ForwardsByDestinationAndDropsTheUnknown) {
  Recorder here;
  Recorder there;
  Network network;
  Switch& hub = network.add_switch();
  hub.route(kHere, network.add_link({}, here, 1));
  hub.route(kThere, network.add_link({}, there, 2));
  Link& in = network.add_link({}, hub, 3);
  in.send(frame_to(network, kThere, 1, 60), 0);
  in.send(frame_to(network, kHere, 2, 60), 0);
  in.send(frame_to(network, MacAddr{{2, 0, 0, 0, 0, 9}}, 3, 60), 0);
  network.run_until(0);
  EXPECT_EQ(here.numbers(), std::vector<uint32_t>{2});
  EXPECT_EQ(there.numbers(), std::vector<uint32_t>{1});
  EXPECT_EQ(hub.unknown(), 1U);
  EXPECT_EQ(network.frames().outstanding(), 0U);
}

TEST(SwitchTest, TwoInputsOfOneOutputFillItsQueue) {
  Recorder end;
  Network network;
  Switch& hub = network.add_switch();
  Link& out = network.add_link({.bits_per_second = kGigabit, .queue_bytes = 1'000}, end, 1);
  hub.route(kThere, out);
  Link& a = network.add_link({.bits_per_second = kGigabit}, hub, 2);
  Link& b = network.add_link({.bits_per_second = kGigabit}, hub, 3);
  for (uint8_t i = 0; i < 30; ++i) {
    a.send(frame_to(network, kThere, i, 100), 0);
    b.send(frame_to(network, kThere, static_cast<uint8_t>(100 + i), 100), 0);
  }
  network.run_until(1'000'000);
  EXPECT_GT(out.stats().overflowed, 15U);
  EXPECT_EQ(out.stats().arrived + out.stats().overflowed, 60U);
  // The queue never runs empty: the output sends at its full rate from the first frame on.
  EXPECT_EQ(end.arrivals.back().at - end.arrivals.front().at, 800 * (end.arrivals.size() - 1));
}

}  // namespace
}  // namespace verbena::sim
