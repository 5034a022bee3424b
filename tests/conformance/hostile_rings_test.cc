// A client that writes nonsense into its rings: its own queue pair fails, nothing else is touched.
// The address sanitizer watches the ends of the rings. Facts of section 4.4 (bad SGE count, bad
// opcode: LOC_QP_OP_ERR).
#include <gtest/gtest.h>

#include <cstring>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

class TailTest : public testing::TestWithParam<uint32_t> {};

TEST_P(TailTest, ImpossibleSendTailEndsTheQueuePair) {
  Timeline t;
  t.post_send(1);
  t.expect({.psn = 0});
  t.qp.header().sq_tail.store(GetParam());
  t.qp.ring(t.fabric.now);
  t.settle();
  t.expect_event(AsyncEventType::kQpFatal);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.qp.ring(t.fabric.now);
  t.settle();
  t.expect_silence();
}

TEST_P(TailTest, ImpossibleReceiveTailEndsTheQueuePair) {
  Timeline t;
  t.post_recv(8);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 1});
  t.expect_ack(0, 1);
  t.expect_recv(0, 1);
  t.qp.header().rq_tail.store(GetParam());
  t.peer({.opcode = Opcode::kSendOnly, .psn = 1, .bytes = 1});
  t.expect_nak(1, NakCode::kRemoteOperational);
  t.expect_event(AsyncEventType::kQpFatal);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

// One entry is posted and, for receives, taken: below and far above are both impossible.
INSTANTIATE_TEST_SUITE_P(Values, TailTest, testing::Values(0, 66, 1000, 0x80000000, 0xFFFFFFFF));

struct BadEntry {
  const char* name;
  void (*change)(abi::SendWqe&);
  abi::WcStatus status = abi::WcStatus::kLocQpOp;
};

class BadEntryTest : public testing::TestWithParam<BadEntry> {};

TEST_P(BadEntryTest, FailsInOrder) {
  Timeline t;
  t.post_send(1);
  abi::SendWqe wqe{};
  wqe.opcode = static_cast<uint8_t>(abi::WrOpcode::kSend);
  wqe.flags = abi::kWrSignaled;
  GetParam().change(wqe);
  std::memcpy(t.qp.send_slot(1), &wqe, sizeof wqe);
  t.qp.publish_send();
  t.qp.ring(t.fabric.now);
  t.settle();
  t.expect({.psn = 0});
  t.expect_silence();
  t.ack(0);
  t.expect_wc(0);
  t.expect_wc_error(1, GetParam().status, abi::VendorErr::kBadWqe);
  EXPECT_EQ(t.station.device.stats().malformed_wqe, 1U);
  t.expect_silence();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadEntryTest,
    testing::Values(BadEntry{"Opcode255", [](abi::SendWqe& w) { w.opcode = 255; }},
                    BadEntry{"Atomic", [](abi::SendWqe& w) { w.opcode = 5; }},
                    BadEntry{"BindMw", [](abi::SendWqe& w) { w.opcode = 8; }},
                    BadEntry{"SgesMost", [](abi::SendWqe& w) { w.num_sge = 65535; }},
                    BadEntry{"SgesOneTooMany", [](abi::SendWqe& w) { w.num_sge = 5; }},
                    BadEntry{"InlineHuge",
                             [](abi::SendWqe& w) {
                               w.flags |= abi::kWrInline;
                               w.inline_length = 0xFFFFFFFF;
                             }},
                    BadEntry{"InlineOneTooMany",
                             [](abi::SendWqe& w) {
                               w.flags |= abi::kWrInline;
                               w.inline_length = 257;
                             }},
                    BadEntry{"InlineAndSges",
                             [](abi::SendWqe& w) {
                               w.flags |= abi::kWrInline;
                               w.num_sge = 1;
                             }},
                    BadEntry{"InlineRead",
                             [](abi::SendWqe& w) {
                               w.opcode = static_cast<uint8_t>(abi::WrOpcode::kRead);
                               w.flags |= abi::kWrInline;
                             }}),
    [](const auto& test) { return test.param.name; });

TEST(HostileRingsTest, MessageOverTheLimitIsALengthError) {
  Timeline t;
  const std::vector<abi::Sge> sges(4, {0, 0xFFFFFFFF, t.station.keys.lkey});
  t.post({.sges = sges});
  t.expect_wc_error(0, abi::WcStatus::kLocLen, abi::VendorErr::kBadWqe);
  t.expect_silence();
}

TEST(HostileRingsTest, ReceiveWithTooManySges) {
  for (const uint32_t count : {5U, 65535U, 0xFFFFFFFFU}) {
    Timeline t;
    const abi::RecvWqe wqe{.num_sge = count};
    t.post_recv(8);
    std::memcpy(t.qp.recv_slot(0), &wqe, sizeof wqe);
    t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 1});
    t.expect_nak(0, NakCode::kRemoteOperational);
    t.expect_wc_error(0, abi::WcStatus::kLocQpOp, abi::VendorErr::kBadWqe, true);
    t.expect_silence();
  }
}

TEST(HostileRingsTest, ReceiveLengthsDoNotOverflow) {
  Timeline t;
  const std::vector<abi::Sge> sges(4, {~uint64_t{0} - 4, 0xFFFFFFFF, t.station.keys.lkey});
  t.qp.post_recv(sges);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 100});
  t.expect_nak(0, NakCode::kRemoteOperational);
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kLocalRange, true);
  t.expect_silence();
}

// Random bytes in all of the region, again and again.
TEST(HostileRingsTest, NoiseInTheRegionIsSurvived) {
  uint64_t state = 88172645463325252;
  const auto random = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  };
  for (int round = 0; round < 60; ++round) {
    Timeline t;
    const abi::QpLayout& layout = t.qp.layout();
    auto* bytes = reinterpret_cast<uint8_t*>(&t.qp.header());
    for (uint64_t i = 0; i < layout.region_bytes; ++i) bytes[i] = static_cast<uint8_t>(random());
    for (uint32_t i = 0; i < layout.sq_depth; ++i)
      t.qp.send_slot(i)[0] = static_cast<uint8_t>(random() % 6);
    t.qp.header().sq_tail.store(static_cast<uint32_t>(random() % (layout.sq_depth + 2)));
    t.qp.header().rq_tail.store(static_cast<uint32_t>(random() % (layout.rq_depth + 2)));
    t.qp.ring(t.fabric.now);
    t.settle();
    for (uint32_t psn = 0; psn < 4; ++psn) {
      t.peer({.opcode = Opcode::kSendOnly, .psn = psn, .bytes = 64});
      t.ack(psn);
    }
    t.pass(10'000'000'000);
    EXPECT_EQ(t.station.memory.out_of_range(), 0U);
  }
}

TEST(HostileRingsTest, UnknownDoorbellsAreIgnored) {
  Timeline t;
  Device& device = t.station.device;
  device.doorbell(t.station.client, 0xFFFFFFFF, 0);
  device.doorbell(t.station.client, 16383, 0);
  device.doorbell(77777, 0, 0);
  t.expect_silence();
}

TEST(HostileRingsTest, PacketsForOthersAreCountedAndDropped) {
  Timeline t;
  const PacketFields fields{.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 4};
  auto frame = t.peer_packet(fields);
  frame[frame.size() - 6] ^= 1;
  t.peer_frame(frame);
  EXPECT_EQ(t.dropped(DropReason::kBadIcrc), 1U);
  frame = t.peer_packet(fields);
  frame[5] ^= 1;  // destination MAC
  t.peer_frame(frame);
  EXPECT_EQ(t.dropped(DropReason::kNotForUs), 1U);
  PacketFields other = fields;
  other.opcode = static_cast<Opcode>(0x24);  // UC SEND Only
  t.peer(other);
  EXPECT_EQ(t.dropped(DropReason::kWrongTransport), 1U);
  wire::Path path;
  path.source_mac = small_config(3).mac;
  path.dest_mac = small_config(1).mac;
  path.source_gid = small_config(3).gids[0];
  path.dest_gid = small_config(1).gids[0];
  t.peer_frame(build_packet(path, t.qp.qpn(), {.opcode = Opcode::kAcknowledge, .psn = 0x1000}));
  EXPECT_EQ(t.dropped(DropReason::kWrongAddress), 1U);
  for (const Qpn qpn : {0U, 1U, t.qp.qpn() + 1, 0xFFFFFFU}) {
    t.peer_frame(build_packet(path, qpn, fields));
  }
  EXPECT_EQ(t.dropped(DropReason::kUnknownQp), 4U);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
