// Client memory that is not ready (kLater) or gone (kFault), at every copy: gather of a request,
// store of a request, gather of a READ's answer, store of a READ's answer.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

using Access = FakeMemory::Access;

PacketFields write(const Timeline& t, Opcode opcode, uint32_t psn, uint32_t bytes, uint32_t total) {
  return {.opcode = opcode,
          .psn = psn,
          .ack_req = false,
          .bytes = bytes,
          .seed = 9,
          .seed_offset = psn * 1024,
          .va = t.station.va(t.kInto),
          .rkey = t.station.keys.rkey,
          .dma_length = total};
}

TEST(MemoryAnswersTest, GatherLaterSendsTheSameWhenReady) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kLater, 2, Access::kRead);
  t.qp.post_send({.sges = {t.station.sge(0, 1500)}});
  t.qp.ring(t.fabric.now);
  t.fabric.step();
  t.expect_silence();
  EXPECT_TRUE(t.station.device.has_work());
  t.pass(10'000);
  t.expect({.opcode = Opcode::kSendFirst, .psn = 0, .bytes = 1024});
  t.expect({.opcode = Opcode::kSendLast, .psn = 1, .bytes = 476});
  t.ack(1);
  t.expect_wc(0);
  t.expect_silence();
}

TEST(MemoryAnswersTest, GatherFaultFailsInOrder) {
  Timeline t;
  t.post_send(1);
  t.station.memory.answer_next(MemResult::kFault, 1, Access::kRead);
  t.post_send(1);
  t.expect({.psn = 0});
  t.expect_silence();
  t.ack(0);
  t.expect_wc(0);
  t.expect_wc_error(1, abi::WcStatus::kLocProt, abi::VendorErr::kLocalFault);
  t.expect_silence();
}

TEST(MemoryAnswersTest, StoreLaterIsAskedForAgainFromWhereItBegan) {
  Timeline t;
  t.post_recv(0);
  t.station.memory.answer_next(MemResult::kLater, 1, Access::kWrite);
  const std::vector<PacketFields> message = {write(t, Opcode::kWriteFirst, 0, 1024, 2052),
                                             write(t, Opcode::kWriteMiddle, 1, 1024, 0),
                                             write(t, Opcode::kWriteLastImm, 2, 4, 0)};
  t.peer_burst(message);
  t.expect_rnr_nak(0, 1);
  t.expect_silence();
  t.peer_burst(message);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 2052, 9));
  EXPECT_EQ(t.expect_wc(0).byte_len, 2052U);  // the receive was not lost
  t.peer(write(t, Opcode::kWriteOnly, 3, 4, 4));
  t.expect_silence();
}

TEST(MemoryAnswersTest, SendStoreLaterKeepsItsReceive) {
  Timeline t;
  t.post_recv(2000);
  t.post_recv(2000);
  t.station.memory.answer_next(MemResult::kLater, 1, Access::kWrite);
  const PacketFields send{.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 100, .seed = 3};
  t.peer(send);
  t.expect_rnr_nak(0, 1);
  t.peer(send);
  t.expect_ack(0, 1);
  t.expect_recv(0, 100);
  t.expect_silence();
}

TEST(MemoryAnswersTest, StoreFaultOfWriteIsRemoteAccess) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kFault, 1, Access::kWrite);
  t.peer(write(t, Opcode::kWriteOnly, 0, 8, 8));
  t.expect_nak(0, NakCode::kRemoteAccess);
  t.expect_event(AsyncEventType::kQpAccessErr);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

TEST(MemoryAnswersTest, StoreFaultOfSendFailsTheReceive) {
  Timeline t;
  t.post_recv(100);
  t.station.memory.answer_next(MemResult::kFault, 1, Access::kWrite);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 8});
  t.expect_nak(0, NakCode::kRemoteOperational);
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kLocalFault, true);
  t.expect_silence();
}

// A process may have lost its memory a little before its end is noticed. Its peer is to see the
// same as after: no answer.
TEST(MemoryAnswersTest, ProcessThatEndedAnswersNoWrite) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kGone, 1, Access::kWrite);
  t.peer(write(t, Opcode::kWriteOnly, 0, 8, 8));
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ProcessThatEndedAnswersNoSend) {
  Timeline t;
  t.post_recv(100);
  t.station.memory.answer_next(MemResult::kGone, 1, Access::kWrite);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 8});
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_wc_error(0, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ProcessThatEndedAnswersNoRead) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kGone, 1, Access::kRead);
  t.peer({.opcode = Opcode::kReadRequest,
          .psn = 0,
          .va = t.station.va(0),
          .rkey = t.station.keys.rkey,
          .dma_length = 1500});
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ReadAnswerLaterIsSentWhenReady) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kLater, 3, Access::kRead);
  t.peer({.opcode = Opcode::kReadRequest,
          .psn = 0,
          .va = t.station.va(0),
          .rkey = t.station.keys.rkey,
          .dma_length = 1500});
  t.pass(10'000);
  t.expect({.opcode = Opcode::kReadResponseFirst, .psn = 0});
  t.expect({.opcode = Opcode::kReadResponseLast, .psn = 1});
  t.expect_silence();
}

TEST(MemoryAnswersTest, ReadAnswerFaultIsRemoteAccess) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kFault, 1, Access::kRead);
  t.peer({.opcode = Opcode::kReadRequest,
          .psn = 0,
          .va = t.station.va(0),
          .rkey = t.station.keys.rkey,
          .dma_length = 1500});
  t.expect_nak(0, NakCode::kRemoteAccess);
  t.expect_event(AsyncEventType::kQpAccessErr);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ReadDataLaterIsAskedForAgainWithoutARetry) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .timeout = 0, .retry_cnt = 0}});
  t.post_read(1500);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.station.memory.answer_next(MemResult::kLater, 1, Access::kWrite);
  const std::vector<PacketFields> answer = {
      {.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024, .seed = 2},
      {.opcode = Opcode::kReadResponseLast,
       .psn = 1,
       .bytes = 476,
       .seed = 2,
       .seed_offset = 1024}};
  t.peer_burst(answer);
  t.expect_silence();
  t.pass(1'000'000);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0, .dma_length = 1500});
  t.peer_burst(answer);
  t.expect_wc(0);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 1500, 2));
  t.expect_silence();
}

// What was stored before stays: a long READ makes progress however often memory is not ready.
TEST(MemoryAnswersTest, ReadDataLaterKeepsWhatWasStored) {
  Timeline t;
  t.post_read(3000);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024, .seed = 2});
  t.station.memory.answer_next(MemResult::kLater, 1, Access::kWrite);
  t.peer({.opcode = Opcode::kReadResponseMiddle,
          .psn = 1,
          .bytes = 1024,
          .seed = 2,
          .seed_offset = 1024});
  t.pass(1'000'000);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1, .dma_length = 3000 - 1024});
  t.peer({.opcode = Opcode::kReadResponseFirst,
          .psn = 1,
          .bytes = 1024,
          .seed = 2,
          .seed_offset = 1024});
  t.peer({.opcode = Opcode::kReadResponseLast,
          .psn = 2,
          .bytes = 3000 - 2048,
          .seed = 2,
          .seed_offset = 2048});
  t.expect_wc(0);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 3000, 2));
  t.expect_silence();
}

// A response of the first answer could not be stored; that of the repeated one, which begins with
// First, arrives during the pause and is as good.
TEST(MemoryAnswersTest, FirstOfARepeatedAnswerIsTakenAfterAFallBack) {
  Timeline t;
  t.post_read(3000);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024});
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 2, .bytes = 3000 - 2048});
  t.expect({.opcode = Opcode::kReadRequest, .psn = 1});
  t.station.memory.answer_next(MemResult::kLater, 1, Access::kWrite);
  t.peer({.opcode = Opcode::kReadResponseMiddle, .psn = 1, .bytes = 1024});
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 1, .bytes = 1024});
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 2, .bytes = 3000 - 2048});
  t.expect_wc(0);
  t.pass(1'000'000);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ReadDataFaultIsLocalProtection) {
  Timeline t;
  t.post_read(8);
  t.expect({.opcode = Opcode::kReadRequest, .psn = 0});
  t.station.memory.answer_next(MemResult::kFault, 1, Access::kWrite);
  t.peer({.opcode = Opcode::kReadResponseOnly, .psn = 0, .bytes = 8});
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kLocalFault);
  EXPECT_EQ(t.state(), QpState::kErr);
  t.expect_silence();
}

// The region went away after the READ was sent.
TEST(MemoryAnswersTest, ReadIntoADeregisteredRegionIsLocalProtection) {
  Timeline t;
  Device& device = t.station.device;
  const uint64_t va = t.station.va(t.kInto);
  const MrKeys keys =
      *device.reg_mr(t.station.client, {t.station.pd, kAccessLocalWrite, va, 64, va});
  t.post({.opcode = abi::WrOpcode::kRead, .sges = {{va, 64, keys.lkey}}});
  t.expect({.opcode = Opcode::kReadRequest});
  ASSERT_TRUE(device.dereg_mr(t.station.client, keys.handle).ok());
  t.peer({.opcode = Opcode::kReadResponseOnly, .psn = 0, .bytes = 64});
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kBadLkey);
  EXPECT_EQ(t.station.memory.accesses(), 0U);
  t.expect_silence();
}

TEST(MemoryAnswersTest, ReadIntoReadOnlyMemoryIsRefusedAtOnce) {
  Timeline t;
  const uint64_t va = t.station.va(t.kInto);
  const MrKeys keys =
      *t.station.device.reg_mr(t.station.client, {t.station.pd, kAccessRemoteRead, va, 64, va});
  t.post({.opcode = abi::WrOpcode::kRead, .sges = {{va, 64, keys.lkey}}});
  t.expect_wc_error(0, abi::WcStatus::kLocProt, abi::VendorErr::kBadLkey);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
