// The words about packets, what is folded, and the drawing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace/scenario.h"
#include "tools/explain/fold.h"
#include "tools/explain/ladder_html.h"
#include "tools/explain/ladder_text.h"
#include "tools/explain/summary.h"
#include "tools/explain/text.h"

namespace verbena::explain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using trace::test::Fields;
using trace::test::kA;
using trace::test::kB;
using trace::test::kToA;
using trace::test::kToB;
using trace::test::Scenario;

TEST(ExplainText, Durations) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(1000), "1 us");
  EXPECT_EQ(duration_text(67'108'864), "67.1 ms");
  EXPECT_EQ(duration_text(999'600), "1 ms");
  EXPECT_EQ(duration_text(4'294'967'296), "4.29 s");
  EXPECT_EQ(duration_text(7'200'000'000'000), "7200 s");
}

TEST(ExplainText, Columns) {
  EXPECT_EQ(milliseconds(5'000'000, 17'345'678), "12.346");
  EXPECT_EQ(milliseconds(17'000'000, 5'000'000), "-12.000");
}

TEST(ExplainText, Names) {
  EXPECT_EQ(gid_text(Gid::from_ipv4(0x0A000001)), "10.0.0.1");
  Gid gid;
  gid.bytes[0] = 0xFD;
  gid.bytes[15] = 2;
  EXPECT_EQ(gid_text(gid), "fd00::2");
  EXPECT_EQ(qpn_text(0x12F), "QPN 0x00012f");
  EXPECT_EQ(qpn_text({}), "QPN unknown");
  EXPECT_EQ(count_text(1, "packet"), "1 packet");
  EXPECT_EQ(count_text(0, "packet"), "0 packets");
}

TEST(ExplainWords, AWriteSaysHowMuchOfIt) {
  Scenario s;
  s.send(0, kToB, Opcode::kWriteFirst, 7, {.payload_bytes = 1024, .dma_length = 3000});
  const trace::Trace& trace = s.analyse();
  const PacketWords words = words_of(trace, trace.packets[0]);
  EXPECT_EQ(words.name, "WRITE First");
  EXPECT_EQ(words.psn, "0x000007");
  EXPECT_THAT(words.details, ElementsAre("1024 of 3000 B"));
  EXPECT_TRUE(words.quiet());
}

TEST(ExplainWords, ACnpHasNoPsn) {
  Scenario s;
  s.send(0, kToB, Opcode::kCnp, 0);
  const trace::Trace& trace = s.analyse();
  const PacketWords words = words_of(trace, trace.packets[0]);
  EXPECT_EQ(words.name, "CNP");
  EXPECT_EQ(words.psn, "");
  EXPECT_THAT(words.note, HasSubstr("send more slowly"));
  EXPECT_EQ(words.tone, Tone::kWarning);
}

// RC-REQ-15: the requester goes on as if it had not come.
TEST(ExplainWords, AReservedSyndromeIsIgnored) {
  for (const uint8_t syndrome : std::vector<uint8_t>{0x40, 0x5F, 0x65, 0x7F}) {
    Scenario s;
    s.send(0, kToB, Opcode::kSendOnly, 7);
    s.send(1, kToA, Opcode::kAcknowledge, 7, {.syndrome = syndrome});
    s.send(2, kToA, Opcode::kAcknowledge, 7);
    const trace::Trace& trace = s.analyse();
    EXPECT_EQ(words_of(trace, s.packet(2)).note, "a reserved syndrome: the requester ignores it");
    EXPECT_EQ(s.number(s.packet(1).answered_by), 3U);
    const auto summaries = summarise(trace, draw(trace, {}));
    ASSERT_EQ(summaries.size(), 1U);
    EXPECT_EQ(summaries[0].fatal_naks, 0U);
    EXPECT_THAT(summaries[0].findings,
                ElementsAre("an answer had a reserved syndrome, which the requester ignores "
                            "(packet 2)"));
    EXPECT_TRUE(summaries[0].recovered);
  }
}

// RC-REQ-14: it acknowledges nothing, not what was sent before either.
TEST(ExplainWords, AnAnswerToWhatWasNotSentIsDropped) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(1, kToA, Opcode::kAcknowledge, 8);
  const trace::Trace& trace = s.analyse();
  const PacketWords words = words_of(trace, s.packet(2));
  EXPECT_EQ(words.note, "no request before it has this PSN: the requester drops it");
  EXPECT_EQ(words.tone, Tone::kWarning);
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_THAT(summaries[0].findings,
              ElementsAre("1 request packet not acknowledged when the capture ends (packet 1)",
                          "an answer was to a PSN that was not sent, and dropped (packet 2)"));
  EXPECT_FALSE(summaries[0].recovered);
}

TEST(ExplainWords, AWriteOfAnotherLengthThanAnnouncedIsSaid) {
  Scenario s;
  s.send(0, kToB, Opcode::kWriteOnly, 1, {.payload_bytes = 1, .dma_length = 5});
  s.send(1, kToA, Opcode::kAcknowledge, 1);
  s.send(2, kToB, Opcode::kWriteFirst, 2, {.payload_bytes = 1024, .dma_length = 1029});
  s.send(3, kToB, Opcode::kWriteLast, 3, {.payload_bytes = 5});
  s.send(4, kToB, Opcode::kWriteFirst, 4, {.payload_bytes = 1024, .dma_length = 2000});
  s.send(5, kToB, Opcode::kWriteMiddle, 5, {.payload_bytes = 1024});
  s.send(6, kToB, Opcode::kWriteLast, 6, {.payload_bytes = 5});
  // Its beginning is not there, and may have announced this.
  s.send(7, kToB, Opcode::kWriteLast, 8, {.payload_bytes = 5});
  const trace::Trace& trace = s.analyse();
  const auto note = [&](uint32_t number) { return words_of(trace, s.packet(number)).note; };
  const std::string wrong =
      "the WRITE is not as long as it announced: no responder may carry it out";
  EXPECT_EQ(note(1), wrong + "; packet 2 acknowledges it all the same");
  EXPECT_EQ(note(4), "");
  EXPECT_EQ(note(7), wrong);
  EXPECT_THAT(note(8), testing::Not(HasSubstr(wrong)));
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_THAT(summaries[0].findings,
              testing::Contains("2 times a WRITE was not as long as it announced "
                                "(first: packet 1)"));
}

TEST(ExplainWords, EachReasonToDropHasItsOwn) {
  std::vector<std::string> texts;
  for (const DropReason reason :
       {DropReason::kTooShort, DropReason::kBadIpHeader, DropReason::kBadLength,
        DropReason::kBadUdpChecksum, DropReason::kBadIcrc, DropReason::kBadTransportVersion,
        DropReason::kUnknownOpcode}) {
    EXPECT_THAT(drop_text(reason), HasSubstr(" "));
    texts.push_back(drop_text(reason));
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
}

class ExplainFold : public testing::Test {
 protected:
  std::vector<size_t> sizes(bool all = false) {
    const trace::Trace& trace = s.analyse();
    std::vector<trace::Index> packets;
    for (trace::Index i = 0; i < trace.packets.size(); ++i) packets.push_back(i);
    rows = fold(trace, packets, all);
    std::vector<size_t> counts;
    for (const Row& row : rows) counts.push_back(row.packets.size());
    return counts;
  }

  Scenario s;
  std::vector<Row> rows;
};

TEST_F(ExplainFold, AFewAlikeAreShown) {
  for (uint32_t i = 0; i < 4; ++i) s.send(i, kToB, Opcode::kSendOnly, i);
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1, 1));
}

TEST_F(ExplainFold, ManyAlikeShowTheFirstAndTheLast) {
  for (uint32_t i = 0; i < 9; ++i) s.send(i, kToB, Opcode::kSendOnly, i, {.payload_bytes = 8});
  EXPECT_THAT(sizes(), ElementsAre(1, 7, 1));
  ASSERT_EQ(rows[1].bundles.size(), 1U);
  EXPECT_EQ(rows[1].bundles[0].count, 7U);
  EXPECT_EQ(rows[1].bundles[0].payload_bytes, 56U);
  EXPECT_EQ(rows[1].bundles[0].first_psn, "0x000001");
  EXPECT_EQ(rows[1].bundles[0].last_psn, "0x000007");
  EXPECT_EQ(sizes(true).size(), 9U);
}

// What comes after it begins another one.
TEST_F(ExplainFold, AGapEndsARun) {
  for (uint32_t i = 0; i < 6; ++i) s.send(i, kToB, Opcode::kSendOnly, i);
  for (uint32_t i = 6; i < 12; ++i) s.send(i, kToB, Opcode::kSendOnly, i + 1);
  EXPECT_THAT(sizes(), ElementsAre(1, 4, 1, 1, 1, 3, 1));
}

TEST_F(ExplainFold, ALongStretchWithoutTroubleIsFoldedByKind) {
  for (uint32_t i = 0; i < 100; ++i) {
    s.send(2 * i, kToB, Opcode::kSendOnly, i);
    s.send(2 * i + 1, kToA, Opcode::kAcknowledge, i);
  }
  const std::vector<size_t> counts = sizes();
  EXPECT_EQ(counts.size(), 17U);
  ASSERT_EQ(counts[12], 184U);
  ASSERT_EQ(rows[12].bundles.size(), 2U);
  EXPECT_EQ(rows[12].bundles[0].name, "SEND Only");
  EXPECT_EQ(rows[12].bundles[1].name, "ACK");
  EXPECT_EQ(rows[12].bundles[1].count, 92U);
}

TEST_F(ExplainFold, ALongRepetitionIsFolded) {
  for (uint32_t i = 0; i < 12; ++i) {
    s.send(i, kToB, i % 2 == 0 ? Opcode::kSendOnly : Opcode::kWriteOnly, i);
  }
  for (uint32_t i = 0; i < 12; ++i) {
    s.send(90'000 + i, kToB, i % 2 == 0 ? Opcode::kSendOnly : Opcode::kWriteOnly, i);
  }
  const std::vector<size_t> counts = sizes();
  // The first repetition says why; of those that go on with it two and the last are shown.
  EXPECT_THAT(std::vector(counts.begin() + 12, counts.end()), ElementsAre(1, 1, 1, 8, 1));
}

TEST(ExplainLadder, FewConnectionsShareOneManyDoNot) {
  for (const uint32_t connections : {1U, 4U, 5U}) {
    Scenario s;
    for (uint32_t i = 0; i < connections; ++i) {
      s.send(i, {kA, kB, 0x200 + i}, Opcode::kSendOnly, i * 0x1000);
    }
    for (uint32_t i = 0; i < connections; ++i) {
      s.send(50 + i, {kB, kA, 0x100 + i}, Opcode::kAcknowledge, i * 0x1000);
    }
    const Picture picture = draw(s.analyse(), {});
    EXPECT_EQ(picture.ladders.size(), connections == 5 ? 5U : 1U);
    EXPECT_EQ(picture.ladders[0].lanes.size(), connections == 5 ? 1U : connections);
    EXPECT_EQ(picture.ladders[0].left.size(), picture.ladders[0].right.size());
  }
}

// Each host stays on its side, whoever asks first.
TEST(ExplainLadder, HostsKeepTheirSides) {
  Scenario s;
  s.send(0, {kA, kB, 1}, Opcode::kUdSendOnly, 0, {.source_qpn = 1});
  s.send(1, kToA, Opcode::kSendOnly, 7);
  s.send(2, kToB, Opcode::kAcknowledge, 7);
  const Picture picture = draw(s.analyse(), {});
  ASSERT_EQ(picture.ladders.size(), 1U);
  const Ladder& ladder = picture.ladders[0];
  EXPECT_EQ(ladder.lanes[1].left_side, 1);
  EXPECT_EQ(ladder.left[1].gid, Gid::from_ipv4(kA.ip));
  EXPECT_EQ(ladder.left[1].qpn, 0x11U);
}

// A queue pair of datagrams is one column, however many it talks to.
TEST(ExplainLadder, ADatagramQueuePairIsOneColumn) {
  Scenario s;
  for (uint32_t i = 0; i < 3; ++i) {
    s.send(i, {kA, kB, 0x200 + i}, Opcode::kUdSendOnly, i, {.source_qpn = 0x11});
  }
  const Picture picture = draw(s.analyse(), {});
  ASSERT_EQ(picture.ladders.size(), 1U);
  EXPECT_EQ(picture.ladders[0].left.size(), 1U);
  EXPECT_EQ(picture.ladders[0].right.size(), 3U);
}

TEST(ExplainLadder, TheDrawing) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7, {.payload_bytes = 3});
  s.send(1500, kToA, Opcode::kAcknowledge, 7);
  const trace::Trace& trace = s.analyse();
  // clang-format off
  EXPECT_EQ(ladder_text(trace, draw(trace, {}), {.width = 80, .ascii = true}),
      "packet       ms  10.0.0.1 QPN 0x000011                     10.0.0.2 QPN 0x000022\n"
      "     1    0.000  |-- SEND Only         PSN 0x000007  3 B --------------------->|\n"
      "     2    1.500  |<- ACK               PSN 0x000007  MSN 0, answers packet 1 --|\n"
      "\n");
  // clang-format on
}

TEST(ExplainSummary, NothingWentWrong) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7, {.payload_bytes = 3});
  s.send(1500, kToA, Opcode::kAcknowledge, 7);
  const trace::Trace& trace = s.analyse();
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_EQ(summaries[0].messages, 1U);
  EXPECT_EQ(summaries[0].payload_bytes, 3U);
  EXPECT_THAT(summary_lines(trace, summaries[0]),
              ElementsAre("2 packets in 1.5 ms, 1 message, 3 B of payload",
                          "longest silence 1.5 ms, before packet 2", "nothing went wrong"));
}

// Captures are taken before the wire's faults; their comments say what these did.
TEST(ExplainWords, WhatTheWireDidIsTakenFromComments) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7, {.payload_bytes = 3});
  s.comment(1, "request; wire: dropped");
  s.send(1, kToB, Opcode::kSendOnly, 8, {.payload_bytes = 3});
  s.comment(2, "request; wire: bit 77 flipped; verbena1: dropped: bad_icrc");
  s.send(2, kToB, Opcode::kSendOnly, 9, {.payload_bytes = 3});
  s.comment(3, "request; wire: delivered twice; verbena1: dropped: repeated_gap");
  s.send(3, kToB, Opcode::kSendOnly, 10, {.payload_bytes = 3});
  s.comment(4, "request; verbena1: dropped: repeated_gap");
  s.send(4, kToB, Opcode::kSendOnly, 11, {.payload_bytes = 3});
  s.comment(5, "somebody's own words");
  const trace::Trace& trace = s.analyse();
  const auto note = [&](uint32_t number) { return words_of(trace, s.packet(number)).note; };
  EXPECT_EQ(note(1), "on the wire: dropped");
  EXPECT_EQ(note(2), "on the wire: bit 77 flipped");
  EXPECT_EQ(note(3), "on the wire: delivered twice");
  EXPECT_EQ(note(4), "");
  EXPECT_EQ(note(5), "");
  EXPECT_TRUE(words_of(trace, s.packet(1)).lost);
  EXPECT_TRUE(words_of(trace, s.packet(2)).lost);
  EXPECT_FALSE(words_of(trace, s.packet(3)).lost);
  EXPECT_THAT(ladder_text(trace, draw(trace, {}), {.width = 80, .ascii = true}),
              HasSubstr("SEND Only         PSN 0x000007  3 B ---------------------x|"));
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_EQ(summaries[0].lost, 2U);
  EXPECT_THAT(summaries[0].findings,
              testing::Contains("2 times the wire lost or damaged a packet, as the capture's "
                                "comments say (first: packet 1)"));
}

// The flipped bit may be one that the receiver does not look at, as of a MAC address.
TEST(ExplainWords, ADamagedPacketThatWasTakenIsNotLost) {
  Scenario s;
  const std::pair<const char*, bool> receipts[] = {
      {"; verbena0: ahead of the expected PSN 0x000007: sequence NAK", false},
      {"; verbena0: expected PSN: executed", false},
      {"; verbena0: dropped: bad_icrc", true},
      {"; not received when this was written", true},
      {";", true},
      {"", true}};
  for (uint32_t i = 0; i < std::size(receipts); ++i) {
    s.send(i, kToB, Opcode::kSendOnly, i);
    s.comment(i + 1, std::string("request; wire: bit 90 flipped") + receipts[i].first);
  }
  const trace::Trace& trace = s.analyse();
  for (uint32_t i = 0; i < std::size(receipts); ++i) {
    EXPECT_EQ(words_of(trace, s.packet(i + 1)).lost, receipts[i].second) << receipts[i].first;
  }
}

TEST(ExplainWords, PacketsWithAnotherFateAreNotFolded) {
  Scenario s;
  for (uint32_t psn = 0; psn < 12; ++psn) {
    s.send(psn, kToB, Opcode::kSendMiddle, psn, {.payload_bytes = 256});
  }
  s.comment(6, "request; wire: dropped");
  const trace::Trace& trace = s.analyse();
  EXPECT_THAT(ladder_text(trace, draw(trace, {}), {.width = 80, .ascii = true}),
              HasSubstr("     6    0.005  |-- SEND Middle       PSN 0x000005"));
}

TEST_F(ExplainFold, WhatWasLostDoesNotArriveAndWhatIsSentAgainSaysSo) {
  for (uint32_t i = 0; i < 20; ++i) {
    s.send(i < 10 ? i : 90'000 + i, kToB, Opcode::kSendOnly, i % 10, {.payload_bytes = 8});
    s.comment(i + 1, i < 10 ? "request; wire: dropped" : "request sent again");
  }
  EXPECT_THAT(sizes(), ElementsAre(1, 8, 1, 1, 8, 1));
  EXPECT_TRUE(rows[1].bundles[0].lost);
  EXPECT_THAT(rows[1].bundles[0].details(), ElementsAre("64 B in all"));
  EXPECT_FALSE(rows[4].bundles[0].lost);
  EXPECT_THAT(rows[4].bundles[0].details(), ElementsAre("64 B in all", "again"));
  const trace::Trace& trace = s.analyse();
  const Picture picture = draw(trace, {});
  EXPECT_THAT(ladder_text(trace, picture, {.width = 80, .ascii = true}),
              HasSubstr("8 x SEND Only          PSN 0x000001 to 0x000008 .........x|"));
  EXPECT_THAT(ladder_html(trace, picture, ""), HasSubstr("row error lane0 out lost"));
}

TEST(ExplainSummary, ACopyOfANakIsNoSecondGap) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(1, kToB, Opcode::kSendOnly, 9);
  const uint32_t nak =
      s.send(2, kToA, Opcode::kAcknowledge, 8, {.syndrome = nak_syndrome(NakCode::kPsnSequence)});
  s.repeat(3, nak);
  const trace::Trace& trace = s.analyse();
  EXPECT_EQ(summarise(trace, draw(trace, {})).at(0).sequence_naks, 1U);
}

TEST(ExplainSummary, OfRequestsWithoutAnswersNothingIsKnown) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  const trace::Trace& trace = s.analyse();
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_EQ(summary_lines(trace, summaries[0]).back(),
            "the capture holds no answers: what became of the requests is not known");
}

TEST(ExplainSummary, WhatIsLeftUnansweredIsSaid) {
  Scenario s;
  s.send(0, kToB, Opcode::kSendOnly, 7);
  s.send(1, kToA, Opcode::kAcknowledge, 7);
  s.send(2, kToB, Opcode::kSendOnly, 8);
  s.send(70'000, kToB, Opcode::kSendOnly, 8);
  const trace::Trace& trace = s.analyse();
  const auto summaries = summarise(trace, draw(trace, {}));
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_EQ(summaries[0].unanswered, 1U);
  EXPECT_FALSE(summaries[0].recovered);
  EXPECT_THAT(summaries[0].findings,
              ElementsAre("1 request packet not acknowledged when the capture ends (packet 4)",
                          "the requester's timer ran out (packet 4)"));
}

}  // namespace
}  // namespace verbena::explain
