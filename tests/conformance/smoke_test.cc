// Every operation at every size around the packet boundaries, between two devices and within one.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/pair.h"

namespace verbena::test {
namespace {

constexpr uint32_t kImm = 0x78563412;

// Two queue pairs of one device or of two, and the stations they are on.
struct Ends {
  explicit Ends(bool loopback, const DeviceConfig& config = small_config(1)) {
    a = b = &fabric.add(config);
    if (!loopback) b = &fabric.add(small_config(2));
    qa = &a->add_qp();
    qb = &b->add_qp();
    a->connect(*qa, b->device.config().gids[0], qb->qpn(), {}, fabric.now);
    b->connect(*qb, a->device.config().gids[0], qa->qpn(), {}, fabric.now);
  }
  Fabric fabric;
  Station* a;
  Station* b;
  ClientQp* qa;
  ClientQp* qb;
};

class SmokeTest : public testing::TestWithParam<std::tuple<bool, uint32_t>> {
 protected:
  static constexpr uint64_t kFrom = 0x1000, kTo = 0x81000;
  Ends ends{std::get<0>(GetParam())};
  uint32_t bytes = std::get<1>(GetParam());
  std::vector<Wc> sends, recvs;

  void run(const SendRequest& request) {
    ends.qa->post_send(request);
    ends.qa->ring(ends.fabric.now);
    ends.fabric.drive();
    for (ClientCq* cq : {ends.a->cq, ends.b->cq}) {
      for (const Wc& wc : cq->poll_all()) (wc.recv ? recvs : sends).push_back(wc);
      if (ends.a == ends.b) break;
    }
    ASSERT_EQ(sends.size(), 1U);
    EXPECT_EQ(sends[0].status, abi::WcStatus::kSuccess);
    EXPECT_EQ(ends.a->device.stats().retransmitted_pkts, 0U);
  }
};

TEST_P(SmokeTest, SendArrives) {
  ends.a->memory.fill(ends.a->va(kFrom), bytes, 7);
  ends.qb->post_recv(std::vector{ends.b->sge(kTo, bytes + 8)});
  run({.opcode = abi::WrOpcode::kSendImm, .sges = {ends.a->sge(kFrom, bytes)}, .imm_wire = kImm});
  ASSERT_EQ(recvs.size(), 1U);
  EXPECT_EQ(recvs[0].byte_len, bytes);
  EXPECT_EQ(recvs[0].imm_wire, kImm);
  EXPECT_EQ(recvs[0].flags, abi::kWcWithImm);
  EXPECT_TRUE(ends.b->memory.holds(ends.b->va(kTo), bytes, 7));
}

TEST_P(SmokeTest, WriteWithImmediateArrives) {
  ends.a->memory.fill(ends.a->va(kFrom), bytes, 8);
  ends.qb->post_recv({});
  run({.opcode = abi::WrOpcode::kWriteImm,
       .sges = {ends.a->sge(kFrom, bytes)},
       .imm_wire = kImm,
       .rkey = ends.b->keys.rkey,
       .remote_va = ends.b->va(kTo)});
  ASSERT_EQ(recvs.size(), 1U);
  EXPECT_EQ(recvs[0].opcode, abi::WcOpcode::kRecvWriteImm);
  EXPECT_EQ(recvs[0].byte_len, bytes);
  EXPECT_TRUE(ends.b->memory.holds(ends.b->va(kTo), bytes, 8));
}

TEST_P(SmokeTest, WriteArrives) {
  ends.a->memory.fill(ends.a->va(kFrom), bytes, 9);
  run({.opcode = abi::WrOpcode::kWrite,
       .sges = {ends.a->sge(kFrom, bytes / 2), ends.a->sge(kFrom + bytes / 2, bytes - bytes / 2)},
       .rkey = ends.b->keys.rkey,
       .remote_va = ends.b->va(kTo)});
  EXPECT_TRUE(recvs.empty());
  EXPECT_TRUE(ends.b->memory.holds(ends.b->va(kTo), bytes, 9));
}

TEST_P(SmokeTest, ReadBringsTheBytes) {
  ends.b->memory.fill(ends.b->va(kFrom), bytes, 10);
  run({.opcode = abi::WrOpcode::kRead,
       .sges = {ends.a->sge(kTo, bytes / 3), ends.a->sge(kTo + bytes / 3, bytes - bytes / 3)},
       .rkey = ends.b->keys.rkey,
       .remote_va = ends.b->va(kFrom)});
  EXPECT_EQ(sends[0].opcode, abi::WcOpcode::kRead);
  EXPECT_EQ(sends[0].byte_len, bytes);
  EXPECT_TRUE(ends.a->memory.holds(ends.a->va(kTo), bytes, 10));
}

// Adapters differ in MigReq and take either.
TEST(MigReqTest, IsSentAsConfiguredAndTakenEitherWay) {
  for (const bool mig_req : {false, true}) {
    DeviceConfig config = small_config(1);
    config.mig_req = mig_req;
    Ends ends(false, config);
    ends.qb->post_recv(std::vector{ends.b->sge(0x1000, 10)});
    ends.qa->post_send({.opcode = abi::WrOpcode::kSend, .sges = {ends.a->sge(0x1000, 10)}});
    ends.qa->ring(ends.fabric.now);
    ends.fabric.drive();
    EXPECT_EQ(ends.a->cq->poll_all().size(), 1U);
    ASSERT_EQ(ends.fabric.sent.size(), 2U);
    EXPECT_EQ(parse_good(ends.fabric.sent[0])->mig_req, mig_req);
    EXPECT_TRUE(parse_good(ends.fabric.sent[1])->mig_req);  // the other device's ACK
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, SmokeTest,
    testing::Combine(testing::Bool(), testing::Values(0, 1, 2, 3, 4, 7, 8, 9, 1023, 1024, 1025,
                                                      2047, 2048, 2049, 3071, 3072, 3073, 200000)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) ? "Loopback" : "TwoDevices") +
             std::to_string(std::get<1>(test.param));
    });

}  // namespace
}  // namespace verbena::test
