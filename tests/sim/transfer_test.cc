// Transfers over a cable that does everything wrong, and over one that loses all. RC-REQ-20 to -33.
#include <gtest/gtest.h>

#include "stack/wire/syndrome.h"
#include "tests/support/pair.h"

namespace verbena::test {
namespace {

constexpr uint32_t kMessages = 64;
constexpr uint32_t kBytes = 20'000;
constexpr uint64_t kTarget = kMessages * kBytes;  // behind the sources
constexpr size_t kMemory = 2 * kMessages * kBytes;
constexpr DurationNs kHour = 3'600'000'000'000;

LinkConfig link_with(const Faults& faults) {
  LinkConfig link;
  link.bits_per_second = 10'000'000'000;
  link.delay = 5'000;
  link.queue_bytes = 256 * 1024;
  link.faults = faults;
  return link;
}

// Two stations on a cable, one queue pair on each.
class Cabled : public Fabric {
 public:
  Cabled(const Faults& there, const Faults& back, const ConnectOptions& options, uint64_t seed)
      : a(add(small_config(1), kMemory)),
        b(add(small_config(2), kMemory)),
        qa(a.add_qp()),
        qb(b.add_qp()) {
    record = false;
    cable(0, 1, link_with(there), link_with(back), seed);
    a.connect(qa, b.device.config().gids[0], qb.qpn(), options, now);
    b.connect(qb, a.device.config().gids[0], qa.qpn(), options, now);
  }

  void post(abi::WrOpcode opcode, uint32_t index) {
    SendRequest request;
    request.opcode = opcode;
    request.sges = {a.sge(uint64_t{index} * kBytes, kBytes)};
    request.remote_va = b.va(kTarget + uint64_t{index} * kBytes);
    request.rkey = b.keys.rkey;
    qa.post_send(request);
  }

  Station& a;
  Station& b;
  ClientQp& qa;
  ClientQp& qb;
};

struct Transfer {
  abi::WrOpcode opcode;
  uint64_t seed;
};

class HostileCableTest : public testing::TestWithParam<Transfer> {};

TEST_P(HostileCableTest, EverythingArrivesOnceAndWhole) {
  const Faults faults{.drop_ppm = 100'000,
                      .duplicate_ppm = 100'000,
                      .corrupt_ppm = 10'000,
                      .reorder_ppm = 100'000,
                      .reorder_frames = 64};
  Cabled t(faults, faults, {.timeout = 10, .retry_cnt = 7}, GetParam().seed);
  const abi::WrOpcode opcode = GetParam().opcode;
  const bool read = opcode == abi::WrOpcode::kRead;
  Station& source = read ? t.b : t.a;
  for (uint32_t i = 0; i < kMessages; ++i) {
    source.memory.fill(source.va((read ? kTarget : 0) + uint64_t{i} * kBytes), kBytes, i);
    const abi::Sge into = t.b.sge(kTarget + uint64_t{i} * kBytes, kBytes);
    if (opcode == abi::WrOpcode::kSend) t.qb.post_recv({&into, 1});
    t.post(opcode, i);
  }
  t.qa.ring(t.now);
  ASSERT_TRUE(t.drive_bounded(kHour));
  for (uint32_t i = 0; i < kMessages; ++i) {
    const auto wc = t.a.cq->poll();
    ASSERT_TRUE(wc.has_value()) << i;
    ASSERT_EQ(wc->status, abi::WcStatus::kSuccess) << i;
    EXPECT_EQ(wc->wqe_index, i);
    const Station& target = read ? t.a : t.b;
    const uint64_t at = (read ? 0 : kTarget) + uint64_t{i} * kBytes;
    EXPECT_TRUE(target.memory.holds(target.va(at), kBytes, i)) << i;
    if (opcode == abi::WrOpcode::kSend) {
      EXPECT_EQ(t.b.cq->poll()->wqe_index, i);
    }
  }
  EXPECT_FALSE(t.a.cq->poll().has_value());
  EXPECT_FALSE(t.b.cq->poll().has_value());
  // The cable did what it was told.
  for (const auto& link : t.network.links()) {
    EXPECT_GT(link->stats().dropped, 0U);
    EXPECT_GT(link->stats().duplicated, 0U);
    EXPECT_GT(link->stats().reordered, 0U);
  }
  EXPECT_GT(t.a.dropped(DropReason::kBadIcrc) + t.b.dropped(DropReason::kBadIcrc), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Operations, HostileCableTest,
    testing::Values(Transfer{abi::WrOpcode::kSend, 1}, Transfer{abi::WrOpcode::kSend, 2},
                    Transfer{abi::WrOpcode::kWrite, 3}, Transfer{abi::WrOpcode::kWrite, 4},
                    Transfer{abi::WrOpcode::kRead, 5}, Transfer{abi::WrOpcode::kRead, 6}));

struct GivingUp {
  uint32_t timeout;
  uint32_t retry_cnt;
  bool both_ways;
};

class DeadCableTest : public testing::TestWithParam<GivingUp> {};

TEST_P(DeadCableTest, EndsWithinTwiceWhatTimeoutAndRetriesSay) {
  const auto [timeout, retry_cnt, both_ways] = GetParam();
  const Faults all_lost{.drop_ppm = 1'000'000};
  // Where only the way back is dead, the peer has the data, and hears it again and again.
  Cabled t(both_ways ? all_lost : Faults{}, all_lost, {.timeout = timeout, .retry_cnt = retry_cnt},
           1);
  for (const abi::WrOpcode opcode : {abi::WrOpcode::kWrite, abi::WrOpcode::kRead}) {
    t.post(opcode, 0);
  }
  t.qa.ring(t.now);
  const Timestamp start = t.now;
  while (t.a.cq->waiting() == 0) {
    if (!t.step()) t.now = std::max(t.now + 1, t.next_time());
    ASSERT_LT(t.now - start, kHour * 24);
  }
  const DurationNs implied = (retry_cnt + 1) * ack_timeout(static_cast<uint8_t>(timeout));
  EXPECT_GE(t.now - start, implied / 2);
  EXPECT_LE(t.now - start, implied * 2);
  EXPECT_EQ(t.a.cq->poll()->status, abi::WcStatus::kRetryExc);
  EXPECT_EQ(t.a.cq->poll()->status, abi::WcStatus::kWrFlush);
  EXPECT_FALSE(t.a.cq->poll().has_value());
  EXPECT_EQ(t.a.state(t.qa), QpState::kErr);
  EXPECT_EQ(t.a.device.stats().retry_exceeded_err, 1U);
  EXPECT_EQ(t.b.device.stats().rcvd_pkts == 0, both_ways);
}

INSTANTIATE_TEST_SUITE_P(Values, DeadCableTest,
                         testing::Values(GivingUp{8, 0, true}, GivingUp{8, 7, true},
                                         GivingUp{10, 1, false}, GivingUp{12, 3, true},
                                         GivingUp{14, 7, true}, GivingUp{14, 7, false},
                                         GivingUp{18, 2, true}, GivingUp{20, 7, true}));

}  // namespace
}  // namespace verbena::test
