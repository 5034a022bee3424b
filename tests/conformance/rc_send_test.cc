// SEND: segmentation, flags, receives. IBTA vol. 1 ch. 9.7.2, 9.7.4; rules RC-REQ-1, -3, -4,
// RC-RSP-20, -22, -24, -26.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

TEST(RcSendTest, LongMessageIsFirstMiddleLast) {
  Timeline t;
  const uint32_t wr = t.post_send(2 * 1024 + 10);
  t.expect({.opcode = Opcode::kSendFirst, .psn = 0, .ack_req = false, .bytes = 1024});
  t.expect({.opcode = Opcode::kSendMiddle, .psn = 1, .ack_req = false, .bytes = 1024});
  t.expect({.opcode = Opcode::kSendLast, .psn = 2, .ack_req = true, .bytes = 10});
  t.expect_silence();
  t.ack(2);
  const Wc wc = t.expect_wc(wr);
  EXPECT_EQ(wc.opcode, abi::WcOpcode::kSend);
  t.expect_silence();
}

TEST(RcSendTest, MessageOfOneMtuIsOnly) {
  Timeline t;
  t.post_send(1024);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0, .ack_req = true, .bytes = 1024});
  t.post_send(1025);
  t.expect({.opcode = Opcode::kSendFirst, .psn = 1, .bytes = 1024});
  t.expect({.opcode = Opcode::kSendLast, .psn = 2, .bytes = 1});
  t.expect_silence();
}

TEST(RcSendTest, EmptyMessageTakesOnePsn) {
  Timeline t;
  t.post({.sges = {}});
  t.post({.sges = {t.station.sge(0, 0)}});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 0});
  t.expect({.opcode = Opcode::kSendOnly, .psn = 1, .bytes = 0});
  t.ack(1);
  t.expect_wc(0);
  t.expect_wc(1);
  t.expect_silence();
}

TEST(RcSendTest, SolicitedAndImmediateAreOnTheLastPacket) {
  Timeline t;
  t.post({.opcode = abi::WrOpcode::kSendImm,
          .flags = abi::kWrSignaled | abi::kWrSolicited,
          .sges = {t.station.sge(0, 1500)},
          .imm_wire = 0xAABBCCDD});
  t.expect({.opcode = Opcode::kSendFirst, .solicited = false});
  t.expect({.opcode = Opcode::kSendLastImm, .solicited = true, .imm_wire = 0xAABBCCDD});
  t.post({.opcode = abi::WrOpcode::kSendImm, .sges = {}, .imm_wire = 1});
  t.expect({.opcode = Opcode::kSendOnlyImm, .psn = 2, .solicited = false, .imm_wire = 1});
  t.expect_silence();
}

TEST(RcSendTest, LongMessageAsksForAcksOnTheWay) {
  Timeline t;
  t.post_send(70 * 1024);
  for (uint32_t i = 0; i < 70; ++i) {
    t.expect({.psn = i, .ack_req = (i + 1) % 32 == 0 || i == 69});
  }
  t.expect_silence();
}

TEST(RcSendTest, UnsignaledMakesNoEntry) {
  Timeline t;
  t.post_send(8, 0);
  t.post_send(8);
  t.ack(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  t.expect_wc(1);
  t.expect_silence();
}

TEST(RcSendTest, InlineDataIsSentWithoutAnyKey) {
  Timeline t;
  const std::vector<uint8_t> data(200, 0x5A);
  t.post({.flags = abi::kWrSignaled | abi::kWrInline, .inline_data = data});
  ASSERT_EQ(t.station.memory.accesses(), 0U);
  t.expect({.opcode = Opcode::kSendOnly, .bytes = 200});
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(RcSendTest, BadLocalKeyFailsInOrder) {
  Timeline t;
  t.post_send(8);
  abi::Sge bad = t.station.sge(0, 8);
  bad.lkey ^= 1;
  t.post({.sges = {bad}});
  t.post_send(8);
  t.expect({.psn = 0});
  t.expect_silence();
  t.ack(0);
  t.expect_wc(0);
  t.expect_wc_error(1, abi::WcStatus::kLocProt, abi::VendorErr::kBadLkey);
  t.expect_wc_error(2, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

TEST(RcSendTest, MessageIsAssembledAcrossSges) {
  Timeline t;
  const std::vector<abi::Sge> sges = {t.station.sge(t.kInto, 700), t.station.sge(t.kInto + 700, 0),
                                      t.station.sge(t.kInto + 700, 5000)};
  t.qp.post_recv(sges);
  t.peer_burst(
      {{.opcode = Opcode::kSendFirst, .psn = 0, .ack_req = false, .bytes = 1024, .seed = 3},
       {.opcode = Opcode::kSendMiddle,
        .psn = 1,
        .ack_req = false,
        .bytes = 1024,
        .seed = 3,
        .seed_offset = 1024},
       {.opcode = Opcode::kSendLast, .psn = 2, .bytes = 3, .seed = 3, .seed_offset = 2048}});
  t.expect_ack(2, 1);
  t.expect_recv(0, 2051);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 2051, 3));
  t.expect_silence();
}

TEST(RcSendTest, ExactlyFullReceiveIsTaken) {
  Timeline t;
  t.post_recv(1024);
  t.peer({.opcode = Opcode::kSendOnlyImm, .bytes = 1024, .imm_wire = 9});
  t.expect_ack(0, 1);
  const Wc wc = t.expect_wc(0);
  EXPECT_EQ(wc.imm_wire, 9U);
  EXPECT_EQ(wc.flags, abi::kWcWithImm);
  t.expect_silence();
}

TEST(RcSendTest, LongerThanTheReceiveIsRefusedWhereItOverflows) {
  Timeline t;
  t.post_recv(1500);
  t.post_recv(64);
  t.peer({.opcode = Opcode::kSendFirst, .psn = 0, .ack_req = false, .bytes = 1024});
  t.expect_silence();
  t.peer({.opcode = Opcode::kSendMiddle, .psn = 1, .ack_req = false, .bytes = 1024});
  t.expect_nak(1, NakCode::kInvalidRequest);
  t.expect_wc_error(0, abi::WcStatus::kLocLen, abi::VendorErr::kRecvTooShort, true);
  t.expect_wc_error(1, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

TEST(RcSendTest, ReceiveWithBadKeyIsOperationalError) {
  Timeline t;
  abi::Sge bad = t.station.sge(t.kInto, 100);
  bad.lkey ^= 0x100;
  t.qp.post_recv(std::vector{bad});
  t.peer({.opcode = Opcode::kSendOnly, .bytes = 100});
  t.expect_nak(0, NakCode::kRemoteOperational);
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kBadLkey, true);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
