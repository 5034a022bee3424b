// Every byte of a message arrives where it belongs, and no other byte changes: all RC verbs, sizes
// around the path MTU, odd addresses, scatter-gather lists, inline data, both posting APIs.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>

#include "tests/e2e/transfer.h"

namespace verbena::e2e {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t mtu_bytes(ibv_mtu mtu) {
  return size_t{128} << static_cast<unsigned>(mtu);
}

QpOptions extended_if(bool extended) {
  QpOptions options;
  options.extended = extended;
  return options;
}

// ---- Sizes around the path MTU ----

using SizesParam = std::tuple<ibv_mtu, Verb, bool>;
class SizesTest : public testing::TestWithParam<SizesParam> {};

TEST_P(SizesTest, EveryByteArrives) {
  const auto [mtu, verb, extended] = GetParam();
  PathOptions path;
  path.mtu = mtu;
  Connected pair(extended_if(extended), path);
  Random random(static_cast<uint64_t>(mtu) * 100 + static_cast<uint64_t>(verb));
  const size_t m = mtu_bytes(mtu);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{5}, m - 1, m, m + 1,
                             2 * m - 1, 2 * m, 2 * m + 1, 7 * m + 13, kMiB + 3}) {
    for (const size_t pieces : {size_t{1}, size_t{2}, size_t{16}}) {
      const Plan plan{verb, bytes, pieces, 1 + random.below(16)};
      ASSERT_EQ(run_transfer(pair.a, pair.b, plan, random), "")
          << bytes << " bytes in " << pieces << " pieces to " << plan.remote_pieces;
    }
  }
}

std::string sizes_name(const testing::TestParamInfo<SizesParam>& info) {
  const auto [mtu, verb, extended] = info.param;
  return std::string(verb_name(verb)) + "Mtu" + std::to_string(mtu_bytes(mtu)) +
         (extended ? "Extended" : "");
}

INSTANTIATE_TEST_SUITE_P(Data, SizesTest,
                         testing::Combine(testing::Values(IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024,
                                                          IBV_MTU_2048, IBV_MTU_4096),
                                          testing::ValuesIn(kAllVerbs), testing::Bool()),
                         sizes_name);

// ---- Per posting API ----

class ApiTest : public testing::TestWithParam<bool> {
 protected:
  QpOptions options() const { return extended_if(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Data, ApiTest, testing::Bool(),
                         [](const auto& api) { return api.param ? "Extended" : "Classic"; });

TEST_P(ApiTest, EveryPieceCountUpToSixteen) {
  Connected pair(options());
  Random random(11);
  for (const Verb verb : kAllVerbs) {
    for (size_t pieces = 1; pieces <= 16; ++pieces) {
      const Plan plan{verb, 1 + random.below(9000), pieces, 17 - pieces};
      ASSERT_EQ(run_transfer(pair.a, pair.b, plan, random), "")
          << verb_name(verb) << " of " << plan.bytes << " bytes in " << pieces << " pieces";
    }
  }
}

// The extended API has no request without a data setter.
TEST(ClassicApiTest, EmptyMessageWithoutAnyPiece) {
  Connected pair(extended_if(false));
  Random random(12);
  for (const Verb verb : kAllVerbs) {
    ASSERT_EQ(run_transfer(pair.a, pair.b, {verb, 0, 0, 1}, random), "") << verb_name(verb);
  }
}

TEST_P(ApiTest, RandomSizesAndShapes) {
  Connected pair(options());
  Random random(13);
  for (int i = 0; i < 400; ++i) {
    const Plan plan{kAllVerbs[random.below(5)], random.below(20'000), 1 + random.below(16),
                    1 + random.below(16)};
    ASSERT_EQ(run_transfer(pair.a, pair.b, plan, random), "")
        << "message " << i << ": " << verb_name(plan.verb) << " of " << plan.bytes << " bytes";
  }
}

// Inline data is taken at the time of the post (RC-REQ-63): the source may change at once, and its
// lkey does not matter.
TEST_P(ApiTest, InlineDataIsTakenAtOnce) {
  QpOptions wanted = options();
  wanted.inline_data = 236;
  Connected pair(wanted);
  const size_t limit = pair.a.max_inline();
  ASSERT_GE(limit, 236u);
  Random random(14);
  for (const Verb verb : {Verb::kSend, Verb::kSendImm, Verb::kWrite, Verb::kWriteImm}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, limit - 1, limit}) {
      for (const size_t pieces : {size_t{1}, size_t{5}}) {
        const Plan plan{verb, bytes, pieces, 3, IBV_SEND_SIGNALED | IBV_SEND_INLINE};
        Transfer transfer(pair.a, pair.b, plan, random.next(), random);
        transfer.post_receive(pair.b);
        SendRequest request = transfer.request();
        for (ibv_sge& sge : request.sges) sge.lkey = 0xBAD;
        post_send(pair.a, request);
        transfer.local().scramble();
        if (takes_receive(verb)) {
          ASSERT_EQ(transfer.check_receive(wait_completion(pair.b.recv_cq()), pair.b.qpn()), "");
        }
        ASSERT_EQ(transfer.check_send(wait_completion(pair.a.send_cq()), pair.a.qpn()), "");
        transfer.local().scramble();
        ASSERT_EQ(transfer.check_data(), "") << verb_name(verb) << " of " << bytes << " bytes";
      }
    }
  }
}

TEST_P(ApiTest, InlineBeyondTheLimitIsRefused) {
  QpOptions wanted = options();
  wanted.inline_data = 64;
  Connected pair(wanted);
  Buffer buffer(pair.a.pd(), pair.a.max_inline() + 1);
  SendRequest request{1, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, {buffer.sge()}};
  EXPECT_NE(try_post_send(pair.a, std::span(&request, 1)), 0);
  expect_no_completion(pair.a.send_cq(), std::chrono::milliseconds(20));
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  Random random(15);
  EXPECT_EQ(run_transfer(pair.a, pair.b, {Verb::kSend, 100}, random), "");
}

// An unsignalled request gives no completion of its own (RC-REQ-60).
TEST_P(ApiTest, EveryFourthSignalled) {
  QpOptions wanted = options();
  wanted.send_wr = 16;
  Connected pair(wanted);
  Random random(16);
  for (int round = 0; round < 50; ++round) {
    std::deque<std::unique_ptr<Transfer>> transfers;
    for (uint64_t i = 0; i < 4; ++i) {
      const Plan plan{kAllVerbs[random.below(5)], random.below(5000), 1 + random.below(4), 2,
                      i == 3 ? unsigned{IBV_SEND_SIGNALED} : 0u};
      transfers.push_back(std::make_unique<Transfer>(pair.a, pair.b, plan, i, random));
      transfers.back()->post_receive(pair.b);
      post_send(pair.a, transfers.back()->request());
    }
    const ibv_wc wc = wait_completion(pair.a.send_cq());
    ASSERT_EQ(transfers.back()->check_send(wc, pair.a.qpn()), "") << "round " << round;
    for (auto& transfer : transfers) {
      if (takes_receive(transfer->plan().verb)) {
        const ibv_wc receive = wait_completion(pair.b.recv_cq());
        ASSERT_EQ(transfer->check_receive(receive, pair.b.qpn()), "");
      }
      ASSERT_EQ(transfer->check_data(), "") << "round " << round;
    }
  }
  expect_no_completion(pair.a.send_cq(), std::chrono::milliseconds(20));
}

TEST_P(ApiTest, AllSignalledByTheQueuePair) {
  QpOptions wanted = options();
  wanted.sq_sig_all = true;
  Connected pair(wanted);
  Random random(17);
  for (const Verb verb : kAllVerbs) {
    ASSERT_EQ(run_transfer(pair.a, pair.b, {verb, 3000, 3, 3, 0}, random), "") << verb_name(verb);
  }
  expect_no_completion(pair.a.send_cq(), std::chrono::milliseconds(20));
}

// A fenced request starts only after earlier READs are complete (RC-REQ-52), so it may send what
// they brought.
TEST_P(ApiTest, FencedSendCarriesWhatTheReadBrought) {
  Connected pair(options());
  constexpr size_t kBytes = 64 * 1024 + 5;
  Buffer here(pair.a.pd(), kBytes, 3);
  Buffer there(pair.b.pd(), kBytes, 5);
  Buffer back(pair.b.pd(), kBytes, 7);
  for (uint64_t round = 1; round <= 30; ++round) {
    fill_pattern(there.bytes(), round);
    const ibv_sge receive = back.sge();
    post_recv(pair.b, round, std::span(&receive, 1));
    const SendRequest requests[] = {
        {round, IBV_WR_RDMA_READ, 0, {here.sge()}, there.va(), there.rkey()},
        {round, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_FENCE, {here.sge()}},
    };
    post_send(pair.a, requests);
    wait_success(pair.b.recv_cq(), "receive");
    wait_success(pair.a.send_cq(), "fenced send");
    ASSERT_EQ(first_difference(back.bytes(), round), kBytes) << "round " << round;
  }
}

// Sixteen messages under way at any time, in a send queue of sixteen entries, posted in chains;
// completions come in the order of the posts.
TEST_P(ApiTest, SixteenUnderWay) {
  QpOptions wanted = options();
  wanted.send_wr = 16;
  wanted.recv_wr = 16;
  Connected pair(wanted);
  Random random(18);
  std::deque<std::unique_ptr<Transfer>> under_way;
  constexpr uint64_t kMessages = 600;
  uint64_t posted = 0;
  while (posted < kMessages || !under_way.empty()) {
    std::vector<SendRequest> chain;
    while (posted < kMessages && under_way.size() < 16) {
      const Plan plan{kAllVerbs[random.below(5)], random.below(30'000), 1 + random.below(16),
                      1 + random.below(16)};
      under_way.push_back(std::make_unique<Transfer>(pair.a, pair.b, plan, posted++, random));
      under_way.back()->post_receive(pair.b);
      chain.push_back(under_way.back()->request());
    }
    if (!chain.empty()) post_send(pair.a, chain);
    Transfer& oldest = *under_way.front();
    const ibv_wc wc = wait_completion(pair.a.send_cq());
    ASSERT_EQ(oldest.check_send(wc, pair.a.qpn()), "") << "of " << posted << " posted";
    if (takes_receive(oldest.plan().verb)) {
      const ibv_wc receive = wait_completion(pair.b.recv_cq());
      ASSERT_EQ(oldest.check_receive(receive, pair.b.qpn()), "");
    }
    ASSERT_EQ(oldest.check_data(), "");
    under_way.pop_front();
  }
}

// ---- Other shapes ----

TEST(DataTest, BothDirectionsAtOnce) {
  Connected pair;
  Random random(19);
  for (int round = 0; round < 100; ++round) {
    const Plan plan{kAllVerbs[random.below(5)], random.below(60'000), 1 + random.below(4), 2};
    Transfer there(pair.a, pair.b, plan, 1, random);
    Transfer back(pair.b, pair.a, plan, 2, random);
    there.post_receive(pair.b);
    back.post_receive(pair.a);
    post_send(pair.a, there.request());
    post_send(pair.b, back.request());
    ASSERT_EQ(there.check_send(wait_completion(pair.a.send_cq()), pair.a.qpn()), "");
    ASSERT_EQ(back.check_send(wait_completion(pair.b.send_cq()), pair.b.qpn()), "");
    if (takes_receive(plan.verb)) {
      ASSERT_EQ(there.check_receive(wait_completion(pair.b.recv_cq()), pair.b.qpn()), "");
      ASSERT_EQ(back.check_receive(wait_completion(pair.a.recv_cq()), pair.a.qpn()), "");
    }
    ASSERT_EQ(there.check_data() + back.check_data(), "") << "round " << round;
  }
}

TEST(DataTest, LoopbackWithinOneDevice) {
  Connected pair({}, {}, device_name(0));
  Random random(20);
  for (int i = 0; i < 100; ++i) {
    const Plan plan{kAllVerbs[random.below(5)], random.below(100'000), 1 + random.below(16),
                    1 + random.below(16)};
    ASSERT_EQ(run_transfer(pair.a, pair.b, plan, random), "") << "message " << i;
  }
}

TEST(DataTest, QueuePairConnectedToItself) {
  Rnic rnic(device_name(0));
  Endpoint self(rnic);
  const PathOptions path;
  self.to_init();
  self.to_rtr(self.address(), path);
  self.to_rts(path);
  Random random(21);
  for (const Verb verb : kAllVerbs) {
    ASSERT_EQ(run_transfer(self, self, {verb, 10'000, 3, 4}, random), "") << verb_name(verb);
  }
}

TEST(DataTest, ReceiveLargerThanTheMessageKeepsItsRest) {
  Connected pair;
  Buffer source(pair.a.pd(), 1000, 1);
  Buffer target(pair.b.pd(), 3000, 3);
  fill_pattern(source.bytes(), 1);
  fill_pattern(target.bytes(), 2);
  const std::vector<uint8_t> before(target.bytes().begin(), target.bytes().end());
  const ibv_sge receive = target.sge();
  post_recv(pair.b, 1, std::span(&receive, 1));
  post_send(pair.a, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {source.sge()}});
  EXPECT_EQ(wait_success(pair.b.recv_cq(), "receive").byte_len, 1000u);
  wait_success(pair.a.send_cq(), "send");
  EXPECT_EQ(first_difference(target.bytes().first(1000), 1), 1000u);
  EXPECT_EQ(std::memcmp(target.bytes().data() + 1000, before.data() + 1000, 2000), 0);
}

TEST(DataTest, ManyQueuePairsShareACompletionQueue) {
  Rnic rnic_a(device_name(0));
  Rnic rnic_b(device_name(1));
  constexpr size_t kPairs = 32;
  const auto send_cq = make_cq(rnic_a.context(), 256);
  const auto recv_cq = make_cq(rnic_b.context(), 256);
  std::deque<Endpoint> a, b;
  Random random(22);
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (size_t i = 0; i < kPairs; ++i) {
    QpOptions options;
    options.send_cq = send_cq.get();
    a.emplace_back(rnic_a, options);
    options = {};
    options.recv_cq = recv_cq.get();
    b.emplace_back(rnic_b, options);
    connect(a[i], b[i]);
  }
  for (size_t i = 0; i < kPairs; ++i) {
    const Plan plan{Verb::kSendImm, random.below(40'000), 2, 2};
    transfers.push_back(std::make_unique<Transfer>(a[i], b[i], plan, i, random));
    transfers[i]->post_receive(b[i]);
    post_send(a[i], transfers[i]->request());
  }
  std::vector<int> sent(kPairs), received(kPairs);
  for (size_t i = 0; i < kPairs; ++i) {
    const ibv_wc send = wait_completion(send_cq.get());
    ASSERT_LT(send.wr_id, kPairs);
    ASSERT_EQ(transfers[send.wr_id]->check_send(send, a[send.wr_id].qpn()), "");
    ++sent[send.wr_id];
    const ibv_wc receive = wait_completion(recv_cq.get());
    ASSERT_LT(receive.wr_id, kPairs);
    ASSERT_EQ(transfers[receive.wr_id]->check_receive(receive, b[receive.wr_id].qpn()), "");
    ++received[receive.wr_id];
  }
  for (size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(sent[i], 1);
    EXPECT_EQ(received[i], 1);
    EXPECT_EQ(transfers[i]->check_data(), "") << "pair " << i;
  }
}

// One message of 1 GiB each way. Contents derive from a seed, so that two buffers are enough.
TEST(HugeDataTest, OneGibibyte) {
  constexpr size_t kBytes = size_t{1} << 30;
  PathOptions path;
  path.mtu = IBV_MTU_4096;
  Connected pair({}, path);
  Buffer here(pair.a.pd(), kBytes, 1);
  Buffer there(pair.b.pd(), kBytes, 3);
  fill_pattern(here.bytes(), 1);
  post_send(pair.a,
            {1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {here.sge()}, there.va(), there.rkey()});
  wait_success(pair.a.send_cq(), "WRITE of 1 GiB");
  EXPECT_EQ(first_difference(there.bytes(), 1), kBytes);
  fill_pattern(there.bytes(), 2);
  post_send(pair.a,
            {2, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, {here.sge()}, there.va(), there.rkey()});
  EXPECT_EQ(wait_success(pair.a.send_cq(), "READ of 1 GiB").byte_len, kBytes);
  EXPECT_EQ(first_difference(here.bytes(), 2), kBytes);
  EXPECT_TRUE(here.guards_intact() && there.guards_intact());
}

}  // namespace
}  // namespace verbena::e2e
