// What a packet is to those before it.
#include <gtest/gtest.h>

#include "stack/wire/syndrome.h"
#include "tests/trace/scenario.h"

namespace verbena::trace::test {
namespace {

constexpr Fields kFull = {.payload_bytes = 1024};

class Sequence : public testing::Test {
 protected:
  uint32_t ask(uint64_t us, Opcode opcode, uint32_t psn, const Fields& fields = {}) {
    return s.send(us, kToB, opcode, psn, fields);
  }
  uint32_t answer(uint64_t us, Opcode opcode, uint32_t psn, const Fields& fields = {}) {
    return s.send(us, kToA, opcode, psn, fields);
  }
  uint32_t ack(uint64_t us, uint32_t psn, uint8_t syndrome = kAckNoCredits) {
    return answer(us, Opcode::kAcknowledge, psn, {.syndrome = syndrome});
  }
  // Looks at the answers' numbers too.
  void expect_again(uint32_t number, uint32_t repeats, Cause cause, uint32_t cause_packet) {
    const TracedPacket& traced = s.packet(number);
    EXPECT_EQ(traced.place, Place::kAgain) << "packet " << number;
    EXPECT_EQ(s.number(traced.repeats), repeats) << "packet " << number;
    EXPECT_EQ(traced.cause, cause) << "packet " << number;
    EXPECT_EQ(s.number(traced.cause_packet), cause_packet) << "packet " << number;
  }

  Scenario s;
};

TEST_F(Sequence, OneAckAnswersSeveralRequests) {
  const uint32_t first = ask(0, Opcode::kSendOnly, 1);
  const uint32_t second = ask(1, Opcode::kSendOnly, 2);
  const uint32_t third = ask(2, Opcode::kSendOnly, 3);
  const uint32_t answer = ack(9, 2);
  s.analyse();
  EXPECT_EQ(s.number(s.packet(answer).answers), second);
  EXPECT_EQ(s.number(s.packet(answer).answers_from), first);
  EXPECT_EQ(s.number(s.packet(first).answered_by), answer);
  EXPECT_EQ(s.number(s.packet(second).answered_by), answer);
  EXPECT_EQ(s.packet(third).answered_by, kNoIndex);
}

TEST_F(Sequence, AGapThenNakThenAgain) {
  ask(0, Opcode::kSendFirst, 0x10, kFull);
  const uint32_t after_gap = ask(2, Opcode::kSendMiddle, 0x12, kFull);
  const uint32_t last = ask(3, Opcode::kSendLast, 0x13);
  const uint32_t nak = ack(20, 0x11, nak_syndrome(NakCode::kPsnSequence));
  const uint32_t again = ask(50, Opcode::kSendMiddle, 0x11, kFull);
  const uint32_t second = ask(51, Opcode::kSendMiddle, 0x12, kFull);
  const uint32_t third = ask(52, Opcode::kSendLast, 0x13);
  s.analyse();
  EXPECT_EQ(s.packet(after_gap).missing, 1U);
  EXPECT_EQ(s.number(s.packet(after_gap).consequence), nak);
  EXPECT_EQ(s.packet(last).missing, 0U);
  // The first was lost before the capture: nothing is repeated that could be pointed at.
  expect_again(again, 0, Cause::kSequenceNak, nak);
  EXPECT_EQ(s.packet(again).waited, 30'000);
  expect_again(second, after_gap, Cause::kSequenceNak, nak);
  EXPECT_EQ(s.packet(second).waited, 0);
  expect_again(third, last, Cause::kSequenceNak, nak);
}

TEST_F(Sequence, RnrNakIsWaitedFor) {
  const uint32_t first = ask(0, Opcode::kSendOnly, 1);
  const uint32_t nak = ack(10, 1, rnr_syndrome(12));
  const uint32_t again = ask(700, Opcode::kSendOnly, 1);
  const uint32_t answer = ack(710, 1);
  s.analyse();
  expect_again(again, first, Cause::kRnr, nak);
  EXPECT_EQ(s.packet(again).waited, 690'000);
  EXPECT_EQ(s.number(s.packet(nak).answers), first);
  EXPECT_EQ(s.number(s.packet(answer).answers), again);
}

TEST_F(Sequence, SilenceThenAgain) {
  const uint32_t first = ask(0, Opcode::kSendOnly, 1);
  const uint32_t second = ask(1, Opcode::kSendOnly, 2);
  const uint32_t again = ask(67'000, Opcode::kSendOnly, 1);
  const uint32_t next = ask(67'001, Opcode::kSendOnly, 2);
  s.analyse();
  expect_again(again, first, Cause::kTimeout, 0);
  EXPECT_EQ(s.packet(again).waited, 67'000'000);
  expect_again(next, second, Cause::kTimeout, 0);
}

TEST_F(Sequence, TheNetworkRepeatsAFrame) {
  const uint32_t first = ask(0, Opcode::kSendOnly, 1);
  const uint32_t copy = s.repeat(3, first);
  const uint32_t next = ask(4, Opcode::kSendOnly, 2);
  const uint32_t late_copy = s.repeat(50'000, first);
  const uint32_t answer = ack(50'001, 2);
  const uint32_t answer_copy = s.repeat(50'002, answer);
  s.analyse();
  EXPECT_EQ(s.packet(copy).place, Place::kCopy);
  EXPECT_EQ(s.number(s.packet(copy).repeats), first);
  EXPECT_EQ(s.packet(next).place, Place::kNew);
  // Others with newer IPv4 identifications came in between: the sender did not make this one anew.
  EXPECT_EQ(s.packet(late_copy).place, Place::kCopy);
  EXPECT_EQ(s.packet(answer_copy).place, Place::kCopy);
  EXPECT_EQ(s.number(s.packet(answer_copy).repeats), answer);
}

TEST_F(Sequence, AnOvertakenPacketIsLate) {
  ask(0, Opcode::kSendFirst, 1, kFull);
  const uint32_t early = ask(2, Opcode::kSendLast, 3);
  const uint32_t late = ask(3, Opcode::kSendMiddle, 2, kFull);
  const uint32_t next = ask(4, Opcode::kSendOnly, 4);
  s.analyse();
  EXPECT_EQ(s.packet(early).missing, 1U);
  EXPECT_EQ(s.packet(late).place, Place::kLate);
  EXPECT_EQ(s.packet(next).place, Place::kNew);
  EXPECT_EQ(s.packet(next).missing, 0U);
}

TEST_F(Sequence, PsnsWrap) {
  ask(0, Opcode::kSendOnly, 0xFFFFFF);
  const uint32_t second = ask(1, Opcode::kReadRequest, 0, {.dma_length = 10});
  const uint32_t third = ask(2, Opcode::kSendOnly, 2);
  const uint32_t answer = ack(3, 0xFFFFFF);
  const uint32_t again = ask(90'000, Opcode::kReadRequest, 0, {.dma_length = 10});
  s.analyse();
  EXPECT_EQ(s.packet(second).place, Place::kNew);
  EXPECT_EQ(s.packet(second).missing, 0U);
  EXPECT_EQ(s.packet(third).missing, 1U);
  EXPECT_EQ(s.number(s.packet(answer).answers), 1U);
  expect_again(again, second, Cause::kTimeout, 0);
}

TEST_F(Sequence, ReadResponsesAreCounted) {
  const uint32_t read = ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 3000});
  const uint32_t send = ask(1, Opcode::kSendOnly, 0x23);
  const uint32_t first = answer(5, Opcode::kReadResponseFirst, 0x20, kFull);
  const uint32_t middle = answer(6, Opcode::kReadResponseMiddle, 0x21, kFull);
  const uint32_t last = answer(7, Opcode::kReadResponseLast, 0x22, {.payload_bytes = 952});
  const uint32_t done = ack(8, 0x23);
  s.analyse();
  EXPECT_EQ(s.packet(read).psn_count, 3U);
  EXPECT_EQ(s.packet(send).missing, 0U);
  EXPECT_EQ(s.number(s.packet(read).answered_by), first);
  for (const uint32_t i : {first, middle, last}) {
    EXPECT_EQ(s.number(s.packet(i).answers), read);
    EXPECT_EQ(s.packet(i).part, i - first + 1);
    EXPECT_EQ(s.packet(i).parts, 3U);
    EXPECT_EQ(s.packet(i).missing, 0U);
  }
  EXPECT_EQ(s.number(s.packet(done).answers_from), send);
}

TEST_F(Sequence, AMissingReadResponseIsSaidOnce) {
  ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 5000});
  answer(5, Opcode::kReadResponseFirst, 0x20, kFull);
  const uint32_t third = answer(7, Opcode::kReadResponseMiddle, 0x22, kFull);
  const uint32_t fourth = answer(8, Opcode::kReadResponseMiddle, 0x23, kFull);
  s.analyse();
  EXPECT_EQ(s.packet(third).missing, 1U);
  EXPECT_EQ(s.packet(third).part, 3U);
  EXPECT_EQ(s.packet(fourth).missing, 0U);
}

// An ACK of something after a READ says that the READ's responses were sent and lost.
TEST_F(Sequence, AnAckThatPassesOverAReadIsAnImpliedNak) {
  const uint32_t read = ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 100});
  const uint32_t send = ask(1, Opcode::kSendOnly, 0x21);
  const uint32_t passed = ack(10, 0x21);
  const uint32_t again = ask(20, Opcode::kReadRequest, 0x20, {.dma_length = 100});
  const uint32_t second = ask(21, Opcode::kSendOnly, 0x21);
  s.analyse();
  EXPECT_EQ(s.number(s.packet(passed).answers), send);
  EXPECT_EQ(s.packet(read).answered_by, kNoIndex);
  expect_again(again, read, Cause::kImpliedNak, passed);
  expect_again(second, send, Cause::kImpliedNak, passed);
}

TEST_F(Sequence, AReadAskedForFromTheMiddle) {
  const uint32_t read = ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 3000});
  answer(5, Opcode::kReadResponseFirst, 0x20, kFull);
  answer(7, Opcode::kReadResponseLast, 0x22, {.payload_bytes = 952});
  const uint32_t rest = ask(70'000, Opcode::kReadRequest, 0x21, {.dma_length = 3000 - 1024});
  const uint32_t first = answer(70'010, Opcode::kReadResponseFirst, 0x21, kFull);
  const uint32_t last = answer(70'011, Opcode::kReadResponseLast, 0x22, {.payload_bytes = 952});
  s.analyse();
  expect_again(rest, read, Cause::kTimeout, 0);
  EXPECT_EQ(s.number(s.packet(first).answers), rest);
  EXPECT_EQ(s.packet(first).part, 1U);
  EXPECT_EQ(s.packet(last).parts, 2U);
  EXPECT_EQ(s.packet(last).place, Place::kAgain);
}

// The requester sees the gap and asks again at once, while responses are still on their way.
TEST_F(Sequence, LateResponsesAreForTheOlderRead) {
  const uint32_t read = ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 5000});
  answer(5, Opcode::kReadResponseFirst, 0x20, kFull);
  const uint32_t third = answer(7, Opcode::kReadResponseMiddle, 0x22, kFull);
  const uint32_t rest = ask(8, Opcode::kReadRequest, 0x21, {.dma_length = 5000 - 1024});
  const uint32_t fourth = answer(9, Opcode::kReadResponseMiddle, 0x23, kFull);
  const uint32_t first = answer(20, Opcode::kReadResponseFirst, 0x21, kFull);
  const uint32_t send = ask(21, Opcode::kSendOnly, 0x25);
  answer(22, Opcode::kReadResponseMiddle, 0x22, kFull);
  answer(23, Opcode::kReadResponseMiddle, 0x23, kFull);
  answer(24, Opcode::kReadResponseLast, 0x24, {.payload_bytes = 904});
  const uint32_t done = ack(25, 0x25);
  s.analyse();
  EXPECT_EQ(s.packet(third).missing, 1U);
  expect_again(rest, read, Cause::kImpliedNak, third);
  EXPECT_EQ(s.number(s.packet(fourth).answers), read);
  EXPECT_EQ(s.packet(fourth).part, 4U);
  EXPECT_EQ(s.packet(fourth).missing, 0U);
  EXPECT_EQ(s.number(s.packet(first).answers), rest);
  EXPECT_EQ(s.packet(first).part, 1U);
  // Nothing of the two READs is left open.
  EXPECT_EQ(s.number(s.packet(done).answers_from), send);
}

// A requester that takes no gap for a NAK waits for its timer.
TEST_F(Sequence, AGapInResponsesIsNoCauseMuchLater) {
  const uint32_t read = ask(0, Opcode::kReadRequest, 0x20, {.dma_length = 3000});
  answer(5, Opcode::kReadResponseFirst, 0x20, kFull);
  answer(7, Opcode::kReadResponseLast, 0x22, {.payload_bytes = 952});
  const uint32_t rest = ask(67'007, Opcode::kReadRequest, 0x21, {.dma_length = 3000 - 1024});
  s.analyse();
  expect_again(rest, read, Cause::kTimeout, 0);
  EXPECT_EQ(s.packet(rest).waited, 67'000'000);
}

TEST_F(Sequence, AReadThatFollowsAResponseAtOnceIsNoTimer) {
  ask(0, Opcode::kSendOnly, 1);
  const uint32_t second = ask(1, Opcode::kReadRequest, 2, {.dma_length = 100});
  const uint32_t response = ack(20, 1);
  const uint32_t again = ask(21, Opcode::kReadRequest, 2, {.dma_length = 100});
  s.analyse();
  expect_again(again, second, Cause::kImpliedNak, response);
}

// A SEND has no answer of its own that could be passed over, and no timer is that short.
TEST_F(Sequence, ASendThatFollowsAResponseAtOnceHasNoCauseHere) {
  ask(0, Opcode::kSendOnly, 1);
  ask(1, Opcode::kSendOnly, 2);
  ack(20, 1);
  const uint32_t again = ask(21, Opcode::kSendOnly, 2);
  s.analyse();
  EXPECT_EQ(s.packet(again).place, Place::kAgain);
  EXPECT_EQ(s.packet(again).cause, Cause::kNone);
}

// While it repeats for the first NAK, the second is on its way: what lies before the PSN of the
// second one is not sent for it.
TEST_F(Sequence, EachOfTwoNaksHasItsOwnRepetition) {
  for (uint32_t i = 0; i < 8; ++i) ask(i, Opcode::kSendOnly, i);
  const uint32_t nak_two = ack(10, 2, nak_syndrome(NakCode::kPsnSequence));
  const uint32_t two = ask(12, Opcode::kSendOnly, 2);
  const uint32_t nak_five = ack(13, 5, nak_syndrome(NakCode::kPsnSequence));
  const uint32_t three = ask(14, Opcode::kSendOnly, 3);
  const uint32_t four = ask(15, Opcode::kSendOnly, 4);
  const uint32_t five = ask(16, Opcode::kSendOnly, 5);
  s.analyse();
  expect_again(two, 3, Cause::kSequenceNak, nak_two);
  EXPECT_TRUE(s.packet(three).continues);
  EXPECT_TRUE(s.packet(four).continues);
  EXPECT_FALSE(s.packet(five).continues);
  EXPECT_EQ(s.packet(five).cause, Cause::kSequenceNak);
  EXPECT_EQ(s.number(s.packet(five).cause_packet), nak_five);
}

// After a go-back the opcode of a response changes with its place: it is the same data all the
// same.
TEST_F(Sequence, ResponsesOfAReadAskedForAgainAreNotNew) {
  ask(0, Opcode::kReadRequest, 0, {.dma_length = 3072});
  answer(1, Opcode::kReadResponseFirst, 0, kFull);
  answer(2, Opcode::kReadResponseMiddle, 1, kFull);
  answer(3, Opcode::kReadResponseLast, 2, kFull);
  ask(4, Opcode::kReadRequest, 1, {.dma_length = 2048});
  const uint32_t again = answer(5, Opcode::kReadResponseFirst, 1, kFull);
  s.analyse();
  EXPECT_EQ(s.packet(again).place, Place::kAgain);
}

TEST_F(Sequence, ARepetitionContinues) {
  for (uint32_t i = 0; i < 3; ++i) ask(i, Opcode::kSendOnly, i);
  const uint32_t first = ask(70'000, Opcode::kSendOnly, 0);
  const uint32_t second = ask(70'000, Opcode::kSendOnly, 1);
  const uint32_t fresh = ask(70'001, Opcode::kSendOnly, 3);
  const uint32_t later = ask(140'001, Opcode::kSendOnly, 2);
  s.analyse();
  EXPECT_FALSE(s.packet(first).continues);
  EXPECT_TRUE(s.packet(second).continues);
  EXPECT_FALSE(s.packet(fresh).continues);
  EXPECT_FALSE(s.packet(later).continues);
}

// Overtaken: the responder misses it, says so, and then gets it after all.
TEST_F(Sequence, AnAckAfterANakIsTheAnswer) {
  const uint32_t request = ask(0, Opcode::kSendOnly, 1);
  const uint32_t nak = ack(1, 1, nak_syndrome(NakCode::kPsnSequence));
  const uint32_t answer = ack(2, 1);
  s.analyse();
  EXPECT_EQ(s.number(s.packet(request).answered_by), answer);
  EXPECT_EQ(s.number(s.packet(nak).answers), request);
}

TEST_F(Sequence, TimeThatRunsBackIsNoWait) {
  ask(500, Opcode::kSendOnly, 1);
  ack(510, 1, rnr_syndrome(12));
  const uint32_t again = ask(490, Opcode::kSendOnly, 1);
  s.analyse();
  EXPECT_EQ(s.packet(again).cause, Cause::kRnr);
  EXPECT_EQ(s.packet(again).waited, 0);
}

TEST_F(Sequence, ADamagedRequestHasItsConsequence) {
  ask(0, Opcode::kSendFirst, 1, kFull);
  const uint32_t damaged = ask(1, Opcode::kSendMiddle, 2, kFull);
  s.frame(damaged)[100] ^= 0x40;
  const uint32_t last = ask(2, Opcode::kSendLast, 3);
  const uint32_t nak = ack(9, 2, nak_syndrome(NakCode::kPsnSequence));
  const uint32_t again = ask(20, Opcode::kSendMiddle, 2, kFull);
  s.analyse();
  EXPECT_EQ(s.packet(damaged).place, Place::kUnordered);
  EXPECT_EQ(s.number(s.packet(damaged).consequence), nak);
  EXPECT_EQ(s.packet(last).missing, 1U);
  expect_again(again, damaged, Cause::kSequenceNak, nak);
}

TEST_F(Sequence, ADamagedRequestThatATimerRepeats) {
  const uint32_t damaged = ask(0, Opcode::kSendOnly, 2);
  ask(1, Opcode::kSendOnly, 1);  // so that there is a connection
  s.frame(damaged).back() ^= 0x40;
  const uint32_t again = ask(70'000, Opcode::kSendOnly, 2);
  s.analyse();
  EXPECT_EQ(s.number(s.packet(damaged).consequence), again);
}

TEST_F(Sequence, QueuePairsSetUpAnew) {
  ask(0, Opcode::kSendOnly, 0x100);
  ack(1, 0x100);
  const uint32_t first = ask(900, Opcode::kSendOnly, 0x800100);
  const uint32_t answer = ack(901, 0x800100);
  const uint32_t next = ask(902, Opcode::kSendOnly, 0x800101);
  s.analyse();
  EXPECT_EQ(s.packet(first).place, Place::kRestart);
  EXPECT_EQ(s.packet(first).missing, 0U);
  EXPECT_EQ(s.number(s.packet(answer).answers), first);
  EXPECT_EQ(s.packet(next).place, Place::kNew);
}

TEST_F(Sequence, AnAckRepeatedSaysNothingNew) {
  const uint32_t first = ask(0, Opcode::kSendOnly, 1);
  const uint32_t answer = ack(1, 1);
  const uint32_t second = ack(2, 1);
  s.analyse();
  EXPECT_EQ(s.number(s.packet(answer).answers_from), first);
  EXPECT_EQ(s.number(s.packet(second).answers), first);
  EXPECT_EQ(s.packet(second).answers_from, kNoIndex);
  EXPECT_EQ(s.packet(second).place, Place::kNew);
}

TEST_F(Sequence, AnAckOfWhatWasNeverAsked) {
  ask(0, Opcode::kSendOnly, 1);
  const uint32_t early = ack(1, 0xFFFFF0);
  const uint32_t future = ack(2, 9);
  s.analyse();
  EXPECT_EQ(s.packet(early).answers, kNoIndex);
  EXPECT_EQ(s.packet(future).answers, kNoIndex);
}

TEST_F(Sequence, UcGapsAreSeen) {
  const Opcode only{0x24};
  ask(0, only, 1);
  const uint32_t second = ask(1, only, 4);
  s.analyse();
  EXPECT_EQ(s.packet(second).missing, 2U);
}

// ---- What the sender's own words say, in Verbena's captures ----

// A NAK that the wire dropped is no reason for anything.
TEST_F(Sequence, ALostNakIsNotTheCause) {
  ask(0, Opcode::kSendOnly, 7);
  ask(1, Opcode::kSendOnly, 8);
  s.comment(ack(2, 7, nak_syndrome(NakCode::kPsnSequence)), "NAK: a gap; wire: dropped");
  ask(70'000, Opcode::kSendOnly, 7);
  s.analyse();
  expect_again(4, 1, Cause::kTimeout, 0);
}

// Heard of only after the timer had run out: the sender knows best.
TEST_F(Sequence, TheSenderSaysWhyItRepeats) {
  ask(0, Opcode::kSendOnly, 7);
  ask(1, Opcode::kSendOnly, 8);
  ack(2, 7, nak_syndrome(NakCode::kPsnSequence));
  s.comment(ask(50'000, Opcode::kSendOnly, 7), "request sent again: no answer in time; b: x");
  s.comment(ask(90'000, Opcode::kSendOnly, 7), "request sent again: after a sequence NAK");
  s.analyse();
  expect_again(4, 1, Cause::kTimeout, 0);
  expect_again(5, 4, Cause::kSequenceNak, 3);
}

}  // namespace
}  // namespace verbena::trace::test
