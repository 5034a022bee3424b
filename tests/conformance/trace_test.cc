// What the engine says of itself: why each frame was sent, and what became of each that was
// received. The words are those of a capture's comments.
#include "stack/trace.h"

#include <gtest/gtest.h>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

using MemoryAccess = FakeMemory::Access;

PacketFields send_only(uint32_t psn, uint32_t bytes = 8) {
  return {.opcode = Opcode::kSendOnly, .psn = psn, .bytes = bytes};
}

PacketFields write_only(const Timeline& t, uint32_t psn, uint32_t bytes = 8) {
  return {.opcode = Opcode::kWriteOnly,
          .psn = psn,
          .bytes = bytes,
          .va = t.station.va(t.kInto),
          .rkey = t.station.keys.rkey,
          .dma_length = bytes};
}

PacketFields read(const Timeline& t, uint32_t psn, uint32_t bytes) {
  return {.opcode = Opcode::kReadRequest,
          .psn = psn,
          .va = t.station.va(0),
          .rkey = t.station.keys.rkey,
          .dma_length = bytes};
}

std::string verdict(const Timeline& t) {
  return to_words(t.verdict());
}

// The next packet sent: its PSN, and why it was sent.
std::string why(Timeline& t, uint32_t psn) {
  t.expect({.psn = psn});
  return to_words(t.note());
}

// ---- Responder ----

TEST(TraceTest, ExpectedRequestsAndTheirAnswers) {
  Timeline t;
  t.post_recv(100);
  t.peer(send_only(0));
  EXPECT_EQ(verdict(t), "expected PSN: executed");
  EXPECT_EQ(why(t, 0), "ACK");
  t.peer(write_only(t, 1));
  EXPECT_EQ(verdict(t), "expected PSN: executed");
  EXPECT_EQ(why(t, 1), "ACK");
  t.peer(read(t, 2, 2048));
  EXPECT_EQ(verdict(t), "expected PSN: READ accepted");
  EXPECT_EQ(why(t, 2), "READ response 1 of 2");
  EXPECT_EQ(why(t, 3), "READ response 2 of 2");
}

TEST(TraceTest, Duplicates) {
  Timeline t;
  t.peer(write_only(t, 0));
  EXPECT_EQ(why(t, 0), "ACK");
  t.peer(write_only(t, 0));
  EXPECT_EQ(verdict(t), "duplicate: acknowledged again, not executed");
  EXPECT_EQ(why(t, 0), "ACK");
  t.peer(read(t, 1, 8));
  EXPECT_EQ(why(t, 1), "READ response 1 of 1");
  t.peer(read(t, 1, 8));
  EXPECT_EQ(verdict(t), "duplicate: READ answered again");
  EXPECT_EQ(why(t, 1), "READ response 1 of 1, to a READ that came twice");
  t.peer(read(t, 1, 16));
  EXPECT_EQ(verdict(t), "dropped: duplicate_not_found");
}

TEST(TraceTest, Gap) {
  Timeline t;
  t.peer(write_only(t, 1));
  EXPECT_EQ(verdict(t), "ahead of the expected PSN 0x005000: sequence NAK");
  EXPECT_EQ(why(t, 0), "NAK: a packet is missing");
  t.peer(write_only(t, 2));
  EXPECT_EQ(verdict(t), "dropped: repeated_gap, expected is PSN 0x005000");
}

TEST(TraceTest, NoReceive) {
  Timeline t;
  t.peer(send_only(0));
  EXPECT_EQ(verdict(t), "not executed, no receive is posted: RNR NAK");
  EXPECT_EQ(why(t, 0), "RNR NAK: no receive is posted");
}

TEST(TraceTest, MemoryNotReady) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kLater, 1, MemoryAccess::kWrite);
  t.peer(write_only(t, 0));
  EXPECT_EQ(verdict(t), "not executed, the client's memory is not ready: RNR NAK");
  EXPECT_EQ(why(t, 0), "RNR NAK: the client's memory is not ready");
}

TEST(TraceTest, ProcessGone) {
  Timeline t;
  t.station.memory.answer_next(MemResult::kGone, 1, MemoryAccess::kWrite);
  t.peer(write_only(t, 0));
  EXPECT_EQ(verdict(t), "no answer: the program is gone");
}

struct Refused {
  const char* name;
  PacketFields (*packet)(Timeline& t);
  const char* because;
};

class TraceRefusalTest : public testing::TestWithParam<Refused> {};

TEST_P(TraceRefusalTest, CauseIsInBoth) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000, .max_dest_rd_atomic = 0}});
  t.peer(GetParam().packet(t));
  EXPECT_EQ(verdict(t), std::string("not executed, ") + GetParam().because + ": NAK");
  EXPECT_EQ(why(t, 0), std::string("NAK: ") + GetParam().because);
}

constexpr Refused kRefused[] = {
    {"MessageOrder",
     [](Timeline&) { return PacketFields{.opcode = Opcode::kSendLast, .bytes = 8}; },
     "First, Middle and Last do not follow each other"},
    {"Operation",
     [](Timeline& t) {
       PacketFields fields = write_only(t, 0);
       fields.opcode = Opcode::kFetchAdd;
       fields.bytes = 0;
       return fields;
     },
     "the queue pair does not take this operation"},
    {"TooManyReads", [](Timeline& t) { return read(t, 0, 8); },
     "more READs are outstanding than agreed"},
    {"Length",
     [](Timeline& t) {
       PacketFields fields = write_only(t, 0);
       fields.dma_length = 9;
       return fields;
     },
     "its length is not what the headers say"},
    {"UnknownKey",
     [](Timeline& t) {
       PacketFields fields = write_only(t, 0);
       fields.rkey ^= 0xFFFF00;
       return fields;
     },
     "no region has this R_Key"},
    {"OutOfRange",
     [](Timeline& t) {
       PacketFields fields = write_only(t, 0);
       fields.va = t.station.va(1 << 20) - 1;
       return fields;
     },
     "it goes beyond the region"},
    {"NoAccess",
     [](Timeline& t) {
       const uint64_t va = t.station.va(t.kInto);
       PacketFields fields = write_only(t, 0);
       fields.rkey = t.station.device.reg_mr(t.station.client, {t.station.pd, 0, va, 64, va})->rkey;
       return fields;
     },
     "the region does not allow it"},
    {"WrongPd",
     [](Timeline& t) {
       const uint64_t va = t.station.va(t.kInto);
       const PdId pd = *t.station.device.alloc_pd(t.station.client);
       PacketFields fields = write_only(t, 0);
       fields.rkey =
           t.station.device
               .reg_mr(t.station.client, {pd, kAccessLocalWrite | kAccessRemoteWrite, va, 64, va})
               ->rkey;
       return fields;
     },
     "the region is of another protection domain"},
    {"ReceiveTooShort",
     [](Timeline& t) {
       t.post_recv(4);
       return send_only(0);
     },
     "the receive is too short"},
    {"MemoryFault",
     [](Timeline& t) {
       t.station.memory.answer_next(MemResult::kFault, 1, MemoryAccess::kWrite);
       return write_only(t, 0);
     },
     "the memory behind the region is gone"},
};

INSTANTIATE_TEST_SUITE_P(Causes, TraceRefusalTest, testing::ValuesIn(kRefused),
                         [](const auto& cause) { return cause.param.name; });

TEST(TraceTest, RegionOfARepeatedReadIsGone) {
  Timeline t;
  const uint64_t va = t.station.va(0);
  const MrKeys keys =
      *t.station.device.reg_mr(t.station.client, {t.station.pd, kAccessRemoteRead, va, 64, va});
  PacketFields request = read(t, 0, 64);
  request.rkey = keys.rkey;
  t.peer(request);
  EXPECT_EQ(why(t, 0), "READ response 1 of 1");
  ASSERT_TRUE(t.station.device.dereg_mr(t.station.client, keys.handle).ok());
  t.peer(request);
  EXPECT_EQ(why(t, 0), "NAK: the region of the READ is gone");
}

TEST(TraceTest, WriteBehindAReadThatCannotLeave) {
  Timeline t;
  t.fabric.sink_capacity = 0;
  t.peer_burst({read(t, 0, 8), write_only(t, 1)});
  EXPECT_EQ(verdict(t), "not executed, a READ before it must be answered first: NAK");
  t.fabric.sink_capacity = UINT32_MAX;
  t.settle();
  EXPECT_EQ(why(t, 0), "READ response 1 of 1");
  EXPECT_EQ(why(t, 1), "NAK: a READ before it must be answered first");
}

// ---- Frames for nobody ----

TEST(TraceTest, DropsNameTheirCounter) {
  Timeline t;
  auto frame = t.peer_packet(write_only(t, 0));
  frame.back() ^= 1;
  t.peer_frame(frame);
  EXPECT_EQ(verdict(t), "dropped: bad_icrc");
  frame = t.peer_packet(write_only(t, 0));
  frame[42 + 7] ^= 0x55;  // the queue pair
  fix_icrc(frame);
  t.peer_frame(frame);
  EXPECT_EQ(verdict(t), "dropped: unknown_qp");
  t.peer_frame(std::vector<uint8_t>(10));
  EXPECT_EQ(verdict(t), "dropped: too_short");
}

TEST(TraceTest, EveryVerdictBelongsToItsFrame) {
  Timeline t;
  t.peer_burst({write_only(t, 0), write_only(t, 0), write_only(t, 2), write_only(t, 3)});
  std::vector<std::string> words;
  for (const RxVerdict& verdict : t.fabric.verdicts) words.push_back(to_words(verdict));
  EXPECT_EQ(words, (std::vector<std::string>{"expected PSN: executed",
                                             "duplicate: acknowledged again, not executed",
                                             "ahead of the expected PSN 0x005001: sequence NAK",
                                             "dropped: repeated_gap, expected is PSN 0x005001"}));
}

// ---- Requester ----

TEST(TraceTest, RequestsAndAcknowledgements) {
  Timeline t;
  t.post_send(2000);
  EXPECT_EQ(why(t, 0), "request");
  EXPECT_EQ(why(t, 1), "request");
  t.ack(0);
  EXPECT_EQ(verdict(t), "acknowledges up to PSN 0x001000");
  t.ack(1);
  EXPECT_EQ(verdict(t), "acknowledges up to PSN 0x001001");
  t.ack(1);
  EXPECT_EQ(verdict(t), "dropped: ghost_ack");
}

TEST(TraceTest, ResentAfterASequenceNak) {
  Timeline t;
  t.post_send(2000);
  EXPECT_EQ(why(t, 0), "request");
  EXPECT_EQ(why(t, 1), "request");
  t.nak(1, NakCode::kPsnSequence);
  EXPECT_EQ(verdict(t), "sends again from PSN 0x001001 on");
  EXPECT_EQ(why(t, 1), "request sent again: after a sequence NAK");
}

TEST(TraceTest, ResentAfterATimeout) {
  Timeline t;
  t.post_send(8);
  EXPECT_EQ(why(t, 0), "request");
  t.pass(ack_timeout(14) + 1);
  EXPECT_EQ(why(t, 0), "request sent again: no answer in time");
  t.post_send(8);
  EXPECT_EQ(why(t, 1), "request");
}

TEST(TraceTest, ResentAfterAnRnrWait) {
  Timeline t;
  t.post_send(8);
  EXPECT_EQ(why(t, 0), "request");
  t.rnr_nak(0, 20);
  EXPECT_EQ(verdict(t), "waits, then sends again from PSN 0x001000 on");
  t.rnr_nak(0, 20);
  EXPECT_EQ(verdict(t), "no effect: waits after an RNR NAK");
  t.nak(0, NakCode::kPsnSequence);
  EXPECT_EQ(verdict(t), "no effect: waits after an RNR NAK");
  t.pass(rnr_delay(20));
  EXPECT_EQ(why(t, 0), "request sent again: the wait after an RNR NAK is over");
}

TEST(TraceTest, MissingReadResponse) {
  Timeline t;
  t.post_read(3000);
  EXPECT_EQ(why(t, 0), "request");
  t.peer({.opcode = Opcode::kReadResponseFirst, .psn = 0, .bytes = 1024});
  EXPECT_EQ(verdict(t), "expected PSN: READ data stored");
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 2, .bytes = 952});
  EXPECT_EQ(verdict(t), "READ response 0x001001 is missing: asks for it again");
  t.peer({.opcode = Opcode::kReadResponseLast, .psn = 2, .bytes = 952});
  EXPECT_EQ(verdict(t), "READ response 0x001001 is missing, and was asked for");
  EXPECT_EQ(why(t, 1), "request sent again: a READ response is missing");
}

TEST(TraceTest, AnswerThatCannotBeStored) {
  Timeline t;
  t.post_read(8);
  EXPECT_EQ(why(t, 0), "request");
  t.station.memory.answer_next(MemResult::kLater, 1, MemoryAccess::kWrite);
  t.peer({.opcode = Opcode::kReadResponseOnly, .psn = 0, .bytes = 8});
  EXPECT_EQ(verdict(t), "dropped: memory_later");
  t.pass(1'000'000);
  EXPECT_EQ(why(t, 0), "request sent again: the answer could not be stored");
}

TEST(TraceTest, FatalNak) {
  Timeline t;
  t.post_send(8);
  t.nak(0, NakCode::kRemoteAccess);
  EXPECT_EQ(verdict(t), "ends the queue pair with an error");
}

}  // namespace
}  // namespace verbena::test
