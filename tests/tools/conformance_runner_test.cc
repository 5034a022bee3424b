// The runner notices each kind of deviation, and names it.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "stack/base/bytes.h"
#include "tools/conformance/case_reader.h"
#include "tools/conformance/frame_edit.h"
#include "tools/conformance/ladder.h"
#include "tools/conformance/runner.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

using Frame = std::vector<uint8_t>;

Case case_named(const std::string& name) {
  return read_case(std::string(VERBENA_PCAP_DIR) + "/cases/" + name + ".toml");
}

std::string mismatched_fields(const CaseResult& result) {
  std::string fields;
  for (const Row& row : result.rows) {
    for (const FieldMismatch& mismatch : row.mismatches) {
      if (!fields.empty()) fields += ' ';
      fields += mismatch.field;
    }
  }
  return fields;
}

// A field of a packet of the device, changed in the capture: the engine does not send that.
struct Mutation {
  const char* field;
  const char* case_name;
  uint32_t packet;
  std::function<void(uint8_t* frame, uint8_t* bth)> change;
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.field << " of packet " << mutation.packet << " of " << mutation.case_name;
}

class MutatedCaptureTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutatedCaptureTest, FailsAndNamesTheField) {
  const Mutation& mutation = GetParam();
  const Case c = case_named(mutation.case_name);
  trace::Capture capture = read_case_capture(c);
  ASSERT_TRUE(run_case(c, capture).passed());
  Frame& frame = capture.frames[mutation.packet - 1].bytes;
  mutation.change(frame.data(), frame.data() + find_bth(frame).value());
  const CaseResult result = run_case(c, capture);
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(mismatched_fields(result), mutation.field);
}

constexpr const char* kRequester = "rc_seq_nak.requester";
constexpr const char* kResponder = "rc_seq_nak.responder";
constexpr size_t kAeth = 12;

INSTANTIATE_TEST_SUITE_P(
    Fields, MutatedCaptureTest,
    testing::Values(
        Mutation{"mac_source", kRequester, 1, [](uint8_t* frame, uint8_t*) { frame[11] ^= 1; }},
        Mutation{"mac_dest", kRequester, 1, [](uint8_t* frame, uint8_t*) { frame[5] ^= 1; }},
        Mutation{"opcode", kRequester, 2, [](uint8_t*, uint8_t* bth) { bth[0] = 0; }},
        Mutation{"solicited", kRequester, 5, [](uint8_t*, uint8_t* bth) { bth[1] ^= 0x80; }},
        Mutation{"pkey", kRequester, 1, [](uint8_t*, uint8_t* bth) { bth[2] ^= 0x80; }},
        Mutation{"psn", kRequester, 4, [](uint8_t*, uint8_t* bth) { bth[11] ^= 0x10; }},
        Mutation{"payload", kRequester, 7, [](uint8_t*, uint8_t* bth) { bth[500] ^= 1; }},
        Mutation{"syndrome", kResponder, 6, [](uint8_t*, uint8_t* bth) { bth[kAeth] = 0x61; }},
        Mutation{"msn", kResponder, 10, [](uint8_t*, uint8_t* bth) { bth[kAeth + 3] ^= 1; }},
        Mutation{"psn", kResponder, 6, [](uint8_t*, uint8_t* bth) { bth[11] ^= 1; }},
        Mutation{"va", "rc_write.requester", 3, [](uint8_t*, uint8_t* bth) { bth[19] ^= 1; }},
        Mutation{"rkey", "rc_write.requester", 3, [](uint8_t*, uint8_t* bth) { bth[23] ^= 1; }},
        Mutation{"dma_length", "rc_read.requester", 3,
                 [](uint8_t*, uint8_t* bth) { bth[27] ^= 1; }},
        Mutation{"imm", "rc_send_imm.requester", 1, [](uint8_t*, uint8_t* bth) { bth[12] ^= 1; }},
        Mutation{"qkey", "ud_send.requester", 2, [](uint8_t*, uint8_t* bth) { bth[12] ^= 1; }}));

// ---- What the sender may choose ----

class FreeFieldTest : public testing::TestWithParam<Mutation> {};

TEST_P(FreeFieldTest, PassesWhateverTheCaptureHas) {
  const Mutation& mutation = GetParam();
  const Case c = case_named(mutation.case_name);
  trace::Capture capture = read_case_capture(c);
  Frame& frame = capture.frames[mutation.packet - 1].bytes;
  mutation.change(frame.data(), frame.data() + find_bth(frame).value());
  EXPECT_TRUE(run_case(c, capture).passed());
}

INSTANTIATE_TEST_SUITE_P(
    Fields, FreeFieldTest,
    testing::Values(
        Mutation{"MigReq", kRequester, 1, [](uint8_t*, uint8_t* bth) { bth[1] ^= 0x40; }},
        Mutation{"AckReq", kRequester, 2, [](uint8_t*, uint8_t* bth) { bth[8] ^= 0x80; }},
        Mutation{"credits", kResponder, 10, [](uint8_t*, uint8_t* bth) { bth[kAeth] = 5; }},
        Mutation{"ICRC", kRequester, 1, [](uint8_t*, uint8_t* bth) { bth[12 + 1024] ^= 1; }},
        Mutation{"source port", kRequester, 1, [](uint8_t*, uint8_t* bth) { bth[-7] ^= 1; }}));

// ---- Packets that are not there, or too many ----

TEST(RunnerTest, PacketThatTheEngineDoesNotSendIsMissing) {
  const Case c = case_named(kResponder);
  trace::Capture capture = read_case_capture(c);
  // The NAK once more, where no gap is.
  capture.frames.push_back(capture.frames[5]);
  capture.frames.back().time = capture.frames[9].time + 1000;
  const CaseResult result = run_case(c, capture);
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.rows.back().kind, Row::Kind::kMissing);
}

TEST(RunnerTest, PacketThatTheCaptureHasNotIsExtra) {
  const Case c = case_named(kResponder);
  trace::Capture capture = read_case_capture(c);
  capture.frames.erase(capture.frames.begin() + 5);  // the NAK
  EXPECT_FALSE(run_case(c, capture).passed());
}

TEST(RunnerTest, PacketOfAnotherQpIsNotThatOfTheDevice) {
  const Case c = case_named("ud_send.requester");
  trace::Capture capture = read_case_capture(c);
  Frame& frame = capture.frames[1].bytes;
  frame[find_bth(frame).value() + 19] ^= 1;  // the source QPN
  const CaseResult result = run_case(c, capture);
  EXPECT_FALSE(result.passed());
  EXPECT_EQ(result.rows.back().kind, Row::Kind::kExtra);
}

TEST(RunnerTest, TimerThatIsFourTimesTooSlowIsMissed) {
  Case c = case_named("rc_timeout_request.requester");
  c.qps[0].timeout = 17;
  const CaseResult result = run_case(c, read_case_capture(c));
  EXPECT_FALSE(result.passed());
}

TEST(RunnerTest, TimerThatIsTooQuickSendsTooOften) {
  Case c = case_named("rc_timeout_request.requester");
  c.qps[0].timeout = 10;
  EXPECT_FALSE(run_case(c, read_case_capture(c)).passed());
}

TEST(RunnerTest, WrongMemoryIsNamedByItsByte) {
  Case c = case_named(kResponder);
  c.recvs[0].expect->packets[1] = 1;
  const CaseResult result = run_case(c, read_case_capture(c));
  ASSERT_EQ(result.wrong.size(), 1U);
  EXPECT_NE(result.wrong[0].find("the buffer of [[recv]] 1: byte "), std::string::npos);
}

TEST(RunnerTest, WrongCompletionCounterEventAndStateAreNamed) {
  Case c = case_named(kResponder);
  c.recvs[0].completion->status = abi::WcStatus::kLocLen;
  c.counters["out_of_sequence"] = 7;
  c.events.push_back({AsyncEventType::kQpFatal, 0});
  c.qps[0].end_state = QpState::kErr;
  const CaseResult result = run_case(c, read_case_capture(c));
  const std::vector<std::string> expected = {
      "completion of [[recv]] 1: status is SUCCESS, expected LOC_LEN_ERR",
      "event QP_FATAL of QP 0x151 did not come",
      "counter out_of_sequence is 2, expected 7",
      "QP 0x151 is in RTS at the end, expected ERR",
  };
  EXPECT_EQ(result.wrong, expected);
}

TEST(RunnerTest, OtherStatusThatTheCaseAllowsPasses) {
  Case c = case_named(kResponder);
  c.recvs[0].completion->status = abi::WcStatus::kLocLen;
  c.recvs[0].completion->or_status = {abi::WcStatus::kSuccess};
  EXPECT_TRUE(run_case(c, read_case_capture(c)).passed());
}

TEST(RunnerTest, CompletionThatNothingAskedForIsAnError) {
  Case c = case_named(kResponder);
  c.recvs[0].completion.reset();
  const CaseResult result = run_case(c, read_case_capture(c));
  const std::vector<std::string> expected = {
      "completion of [[recv]] 1 (SUCCESS) came, and none was expected any more"};
  EXPECT_EQ(result.wrong, expected);
}

TEST(RunnerTest, CaseThatMatchesNoPacketIsRefused) {
  Case c = case_named(kResponder);
  c.qps[0].qpn = 0x999;
  c.qps[0].peer.qpn = 0x998;
  const trace::Capture capture = read_case_capture(c);
  EXPECT_THROW((void)run_case(c, capture), tools::CommandError);
}

// ---- Edited frames ----

TEST(FrameEditTest, RightIcrcStaysRightAndWrongStaysWrong) {
  const trace::Capture capture = read_case_capture(case_named(kRequester));
  FrameEdit edit;
  edit.dest_qpn = 0x123456;
  for (const bool right : {true, false}) {
    Frame frame = capture.frames[0].bytes;
    if (!right) frame[100] ^= 0x20;
    const Frame changed = edited(frame, edit);
    EXPECT_EQ(dest_qpn_of(changed), 0x123456U);
    const auto parsed = wire::parse(changed);
    EXPECT_EQ(wire::icrc_valid(std::get<wire::ParsedPacket>(parsed)), right);
  }
}

// The ICRC is over the headers that the version says: those of IPv6 are longer than this frame.
TEST(FrameEditTest, FrameOfAnotherIpVersionThanItsEtherTypeKeepsItsIcrc) {
  const trace::Capture capture = read_case_capture(case_named(kRequester));
  constexpr size_t kAckBytes = 62;
  Frame frame(capture.frames[0].bytes.begin(), capture.frames[0].bytes.begin() + kAckBytes);
  frame[14] = 0x65;
  frame[16] = 0;
  frame[17] = kAckBytes - 14;  // the IP packet's length
  FrameEdit edit;
  edit.dest_qpn = 0x123456;
  const Frame changed = edited(frame, edit);
  EXPECT_TRUE(std::equal(frame.end() - 4, frame.end(), changed.end() - 4));
}

// ---- How a failure looks ----

TEST(LadderTest, ShowsBothSidesAndTheField) {
  Case c = case_named("rc_nak_too_long.responder");
  c.differences.clear();
  const trace::Capture capture = read_case_capture(c);
  // clang-format off
  const std::string expected =
      R"(packet     seconds  the capture                                      Verbena
                    peer                                    device   peer                                    device
          0.000000  · [[recv]] 1 is posted
     1    0.000000  ── SEND First ebe325 1024 B ─────────────────▶   ── SEND First ebe325 1024 B ─────────────────▶
     2    0.000020  ── SEND Middle ebe326 1024 B ────────────────▶   ── SEND Middle ebe326 1024 B ────────────────▶
     3    0.000241  ── SEND Last ebe327 952 B ───────────────────▶   ── SEND Last ebe327 952 B ───────────────────▶
     4    0.001017  ◀─ Acknowledge ebe326 0x63 MSN 0 ───────────── ≠ ◀─ Acknowledge ebe326 0x61 MSN 0 ─────────────
                    syndrome: expected 0x63 (NAK remote operational error), Verbena sent 0x61 (NAK invalid request)
)";
  // clang-format on
  EXPECT_EQ(ladder(run_case(c, capture), capture, 4), expected);
}

}  // namespace
}  // namespace verbena::conformance
