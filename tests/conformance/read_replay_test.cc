// Duplicate READ requests at the responder. IBTA vol. 1 ch. 9.7.5.1.2 (C9-110); rules RC-RSP-31,
// -33 to -35.
#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

PacketFields read(const Timeline& t, uint32_t psn, uint32_t bytes, uint64_t offset = 0) {
  return {.opcode = Opcode::kReadRequest,
          .psn = psn,
          .va = t.station.va(offset),
          .rkey = t.station.keys.rkey,
          .dma_length = bytes};
}

void expect_responses(Timeline& t, uint32_t first, uint32_t last) {
  for (uint32_t psn = first; psn <= last; ++psn) {
    const bool only = first == last;
    const Opcode opcode = only           ? Opcode::kReadResponseOnly
                          : psn == first ? Opcode::kReadResponseFirst
                          : psn == last  ? Opcode::kReadResponseLast
                                         : Opcode::kReadResponseMiddle;
    t.expect({.opcode = opcode, .psn = psn});
  }
}

TEST(ReadReplayTest, WholeAndPartialRepeatsStartWithFirst) {
  Timeline t;
  t.peer(read(t, 0, 4096));
  expect_responses(t, 0, 3);
  t.peer(read(t, 0, 4096));
  expect_responses(t, 0, 3);
  t.peer(read(t, 2, 2048, 2048));
  expect_responses(t, 2, 3);
  t.peer(read(t, 3, 1024, 3072));
  expect_responses(t, 3, 3);
  t.peer(read(t, 4, 8));
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 4, .msn = 2});
  t.expect_silence();
}

TEST(ReadReplayTest, RepeatBringsTheMemoryOfNow) {
  Timeline t;
  t.peer(read(t, 0, 8));
  expect_responses(t, 0, 0);
  t.station.memory.fill(t.station.va(0), 8, 50);
  std::vector<uint8_t> payload;
  t.fabric.add(small_config(2));
  t.fabric.filter = [&](const wire::ParsedPacket& packet) {
    payload.assign(packet.payload.begin(), packet.payload.end());
    return Fate{};
  };
  t.peer(read(t, 0, 8));
  expect_responses(t, 0, 0);
  ASSERT_EQ(payload.size(), 8U);
  EXPECT_EQ(payload[3], FakeMemory::pattern(50, 3));
  t.expect_silence();
}

TEST(ReadReplayTest, WhatDoesNotMatchIsDropped) {
  Timeline t;
  t.peer(read(t, 0, 4096));
  expect_responses(t, 0, 3);
  PacketFields other = read(t, 0, 4096);
  other.rkey ^= 1;
  t.peer(other);
  t.peer(read(t, 0, 4095));
  t.peer(read(t, 0, 5000));
  t.peer(read(t, 0, 4096, 1));
  t.peer(read(t, 1, 3072, 1023));
  t.peer(read(t, 0xFFFFFF, 8));
  EXPECT_EQ(t.dropped(DropReason::kDuplicateNotFound), 6U);
  EXPECT_EQ(t.state(), QpState::kRts);
  t.expect_silence();
}

TEST(ReadReplayTest, OnlyTheNewestAreRemembered) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_dest_rd_atomic = 2}});
  for (uint32_t psn = 0; psn < 3; ++psn) {
    t.peer(read(t, psn, 8));
    expect_responses(t, psn, psn);
  }
  t.peer(read(t, 0, 8));
  EXPECT_EQ(t.dropped(DropReason::kDuplicateNotFound), 1U);
  t.expect_silence();
  t.peer(read(t, 1, 8));
  expect_responses(t, 1, 1);
  t.expect_silence();
}

TEST(ReadReplayTest, RepeatInterruptsItsOwnAnswer) {
  Timeline t;
  t.fabric.sink_capacity = 2;
  t.fabric.poll_budget = 2;
  t.fabric.inject(0, t.peer_packet(read(t, 0, 4096)));
  t.fabric.step();  // two responses leave
  t.fabric.inject(0, t.peer_packet(read(t, 0, 4096)));
  t.settle();
  t.expect({.opcode = Opcode::kReadResponseFirst, .psn = 0});
  t.expect({.opcode = Opcode::kReadResponseMiddle, .psn = 1});
  expect_responses(t, 0, 3);
  t.expect_silence();
}

// The repeat may be a copy that the network kept while the application, which has the data, let the
// region go.
TEST(ReadReplayTest, RevokedKeyIsRefusedOnRepeatAndNothingEnds) {
  Timeline t;
  Device& device = t.station.device;
  const uint64_t va = t.station.va(0);
  const MrKeys keys =
      *device.reg_mr(t.station.client, {t.station.pd, kAccessRemoteRead, va, 64, va});
  PacketFields request = read(t, 0, 64);
  request.rkey = keys.rkey;
  t.peer(request);
  expect_responses(t, 0, 0);
  ASSERT_TRUE(device.dereg_mr(t.station.client, keys.handle).ok());
  t.peer(request);
  t.expect_nak(0, NakCode::kRemoteAccess);
  t.peer(request);
  t.expect_nak(0, NakCode::kRemoteAccess);
  t.peer(read(t, 1, 2048));
  expect_responses(t, 1, 2);
  t.expect_silence();
  EXPECT_EQ(t.state(), QpState::kRts);
}

TEST(ReadReplayTest, RefusalOfARepeatDoesNotReplaceAnotherNak) {
  Timeline t;
  Device& device = t.station.device;
  const uint64_t va = t.station.va(0);
  const MrKeys keys =
      *device.reg_mr(t.station.client, {t.station.pd, kAccessRemoteRead, va, 64, va});
  PacketFields request = read(t, 0, 64);
  request.rkey = keys.rkey;
  t.peer(request);
  expect_responses(t, 0, 0);
  ASSERT_TRUE(device.dereg_mr(t.station.client, keys.handle).ok());
  t.peer_burst({read(t, 5, 8), request});
  t.expect_nak(1, NakCode::kPsnSequence);
  t.expect_silence();
}

// The peer's repeat was late: it has the data and asks for the next. That the old answer is being
// repeated does not count against its limit.
TEST(ReadReplayTest, NewReadDuringAReplayIsTaken) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_dest_rd_atomic = 1}});
  t.peer(read(t, 0, 2048));
  expect_responses(t, 0, 1);
  t.peer_burst({read(t, 0, 2048), read(t, 2, 8)});
  t.expect({.opcode = Opcode::kReadResponseOnly, .psn = 2, .msn = 2});
  EXPECT_EQ(t.state(), QpState::kRts);
  t.expect_silence();
}

// Only a READ that was never answered holds up what follows: to wait for repeats as well would
// let a requester that is recovering use up its retries.
TEST(ReadReplayTest, WriteDoesNotWaitForAReplay) {
  Timeline t;
  t.peer(read(t, 0, 2048));
  expect_responses(t, 0, 1);
  t.fabric.sink_capacity = 0;
  t.peer_burst({read(t, 0, 2048),
                {.opcode = Opcode::kWriteOnly,
                 .psn = 2,
                 .bytes = 8,
                 .seed = 7,
                 .va = t.station.va(t.kInto),
                 .rkey = t.station.keys.rkey,
                 .dma_length = 8}});
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto), 8, 7));
  t.fabric.sink_capacity = UINT32_MAX;
  t.settle();
  expect_responses(t, 0, 1);
  t.expect_ack(2, 2);
  t.expect_silence();
}

TEST(ReadReplayTest, AnswersLeaveInPsnOrder) {
  Timeline t;
  t.post_recv(64);
  t.peer_burst(
      {read(t, 0, 2048), {.opcode = Opcode::kSendOnly, .psn = 2, .bytes = 8}, read(t, 3, 8)});
  expect_responses(t, 0, 1);
  t.expect({.opcode = Opcode::kAcknowledge, .psn = 2, .syndrome = 0x1F});
  expect_responses(t, 3, 3);
  t.expect_recv(0, 8);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
