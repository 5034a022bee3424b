// Every capture of pcaps/ imports to the cases of pcaps/cases/, byte by byte; and what cannot be a
// case is named with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tools/conformance/case_reader.h"
#include "tools/conformance/case_writer.h"
#include "tools/conformance/import.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

namespace fs = std::filesystem;

const fs::path kPcaps = VERBENA_PCAP_DIR;
const fs::path kCases = kPcaps / "cases";

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> files_in(const fs::path& folder, const char* extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Imported import_named(const char* name) {
  return import_capture(kPcaps / name, kCases);
}

TEST(ImportTest, EveryCaptureGivesTheCasesThatAreThere) {
  std::set<fs::path> made;
  for (const fs::path& capture : files_in(kPcaps, ".pcap")) {
    const Imported imported = import_capture(capture, kCases);
    EXPECT_FALSE(imported.cases.empty() && imported.skipped.empty()) << capture;
    for (const auto& [c, result] : imported.cases) {
      EXPECT_TRUE(result.passed()) << c.file;
      EXPECT_EQ(case_text(c), content(c.file))
          << "verbena conformance import " << capture << " -o pcaps/cases";
      made.insert(c.file);
    }
  }
  for (const fs::path& file : files_in(kCases, ".toml")) EXPECT_TRUE(made.contains(file)) << file;
}

TEST(ImportTest, WhatIsWrittenIsReadBackTheSame) {
  for (const fs::path& file : files_in(kCases, ".toml")) {
    EXPECT_EQ(case_text(read_case(file)), content(file));
  }
}

TEST(ImportTest, WrapOfThePsnIsNothingSpecial) {
  const Imported imported = import_named("rc_psn_wrap.pcap");
  ASSERT_EQ(imported.cases.size(), 2U);
  EXPECT_EQ(imported.cases[0].c.qps[0].sq_psn, 0xFFFFFCU);
  EXPECT_EQ(imported.cases[0].c.sends.size(), 6U);
}

TEST(ImportTest, KnownDifferencesNameTheirRule) {
  const Imported imported = import_named("rc_nak_too_long.pcap");
  ASSERT_EQ(imported.cases.size(), 2U);
  ASSERT_EQ(imported.cases[1].c.differences.size(), 1U);
  EXPECT_EQ(imported.cases[1].c.differences[0].rule, "RC-RSP-22");
}

TEST(ImportTest, TimersAndRetriesComeFromTheCapture) {
  const QpSection qp = import_named("rc_retry_exceeded.pcap").cases.at(0).c.qps[0];
  EXPECT_EQ(qp.timeout, 12U);
  EXPECT_EQ(qp.retry_cnt, 2U);
  EXPECT_EQ(qp.end_state, QpState::kErr);
  EXPECT_EQ(import_named("rc_rnr_exceeded.pcap").cases.at(0).c.qps[0].rnr_retry, 2U);
}

TEST(ImportTest, TwoConnectionsAreFourCases) {
  EXPECT_EQ(import_named("cm_ucmatose.pcap").cases.size(), 4U);
}

struct Skipped {
  const char* capture;
  const char* reason;
};

class SkippedTest : public testing::TestWithParam<Skipped> {};

TEST_P(SkippedTest, SaysWhy) {
  const Imported imported = import_named(GetParam().capture);
  EXPECT_TRUE(imported.cases.empty());
  std::string all;
  for (const std::string& reason : imported.skipped) all += reason + '\n';
  EXPECT_NE(all.find(GetParam().reason), std::string::npos) << all;
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, SkippedTest,
    testing::Values(Skipped{"uc_send.pcap", "UC, which Verbena does not do yet"},
                    Skipped{"rc_atomic.pcap", "atomics"},
                    Skipped{"rc_send_inv.pcap", "SENDs with invalidate"},
                    Skipped{"cm_reject.pcap", "connection manager"},
                    Skipped{"connectx5-rc-write-only-1024.pcap", "requests without an answer"},
                    Skipped{"gem5-ipv6-golden.pcap", "no whole exchange"},
                    Skipped{"strom-fpga-placeholder-icrc.pcap", "no packet that a receiver"}));

TEST(ImportTest, FileThatIsNoCaptureIsRefused) {
  EXPECT_THROW((void)import_capture(kPcaps / "README.md", kCases), tools::CommandError);
}

// ---- Captures cut out of others ----

TEST(ImportTest, CaptureThatBeginsInsideAMessageBeginsWithTheNext) {
  // rc_send_mtu4096: Only, ACK, Only, ACK, First ...; from its fourth request packet on.
  const trace::Capture whole = trace::read_capture(kPcaps / "rc_seq_nak.pcap");
  trace::Capture capture;
  for (size_t i = 1; i < whole.frames.size(); ++i) capture.frames.push_back(whole.frames[i]);
  const Imported imported = import_capture(capture, "x.pcap", "");
  EXPECT_TRUE(imported.cases.empty());
  ASSERT_EQ(imported.skipped.size(), 2U);
  EXPECT_NE(imported.skipped[0].find("in the middle of a message"), std::string::npos);
}

TEST(ImportTest, CaptureThatEndsTooEarlyIsTakenAsFarAsItGoes) {
  const trace::Capture whole = trace::read_capture(kPcaps / "rc_send.pcap");
  for (const size_t frames : {9U, 12U, 14U, 40U}) {
    trace::Capture capture;
    capture.frames.assign(whole.frames.begin(),
                          whole.frames.begin() + static_cast<std::ptrdiff_t>(frames));
    const Imported imported = import_capture(capture, "x.pcap", "");
    EXPECT_EQ(imported.cases.size(), 2U);
    for (const auto& [c, result] : imported.cases) EXPECT_TRUE(result.passed()) << frames;
  }
}

// An engine that waits to be asked winds its timers up for all that time.
TEST(ImportTest, YearsBetweenTwoPacketsAreNotWaitedFor) {
  for (const auto& [name, packet] : {std::pair("rc_seq_nak.pcap", 6U),
                                     {"rc_rnr_nak.pcap", 2U},
                                     {"rc_read.pcap", 10U},
                                     {"rc_timeout_request.pcap", 2U}}) {
    trace::Capture capture = trace::read_capture(kPcaps / name);
    for (size_t i = packet; i < capture.frames.size(); ++i) {
      capture.frames[i].time += Timestamp{20} * 365 * 86400 * 1'000'000'000;
    }
    const Imported imported = import_capture(capture, "x.pcap", "");
    EXPECT_EQ(imported.cases.size(), 2U) << name;
    for (const auto& [c, result] : imported.cases) EXPECT_TRUE(result.passed()) << name;
  }
}

TEST(ImportTest, CaptureThatBeginsLaterHasMessagesBefore) {
  const trace::Capture whole = trace::read_capture(kPcaps / "rc_write.pcap");
  trace::Capture capture;
  capture.frames.assign(whole.frames.begin() + 3, whole.frames.end());
  const Imported imported = import_capture(capture, "x.pcap", "");
  ASSERT_EQ(imported.cases.size(), 2U);
  EXPECT_EQ(imported.cases[1].c.qps[0].msn, 2U);
  for (const auto& [c, result] : imported.cases) EXPECT_TRUE(result.passed());
}

// ---- Where the capture was taken, and what the wire did behind that place ----

// SEND First, Middle (lost), Middle, Middle, Last, NAK, and again from the lost one on.
trace::Capture capture_with_nak() {
  return trace::read_capture(kPcaps / "rc_seq_nak.pcap");
}

const NetworkSection& network_of(const Imported& imported, Role role) {
  static const NetworkSection kNone;
  for (const auto& imported_case : imported.cases) {
    if (imported_case.c.role == role) return imported_case.c.network;
  }
  ADD_FAILURE() << "no such case";
  return kNone;
}

TEST(ImportTest, NakThatWasCapturedBeforeTheRequesterKnewOfItIsLate) {
  trace::Capture capture = capture_with_nak();
  const Timestamp time = capture.frames[3].time + 1;
  std::rotate(capture.frames.begin() + 4, capture.frames.begin() + 5, capture.frames.begin() + 6);
  capture.frames[4].time = time;
  const Imported imported = import_capture(capture, "x.pcap", "");
  EXPECT_EQ(imported.cases.size(), 2U);
  for (const auto& [c, result] : imported.cases) EXPECT_TRUE(result.passed()) << c.title;
  const std::map<uint32_t, uint32_t> late{{5, 6}};
  EXPECT_EQ(network_of(imported, Role::kRequester).late, late);
}

TEST(ImportTest, CommentsOfVerbenasWireAreBelieved) {
  trace::Capture capture = capture_with_nak();
  capture.frames[2].comment = "request; wire: dropped";
  capture.frames[0].comment = "request; wire: delivered twice; verbena0: executed";
  capture.frames[1].comment = "request; wire: delivered twice, once with bit 7 flipped";
  const Imported imported = import_capture(capture, "x.pcap", "");
  EXPECT_EQ(imported.cases.size(), 2U);
  for (const auto& [c, result] : imported.cases) EXPECT_TRUE(result.passed()) << c.title;
  const NetworkSection& network = network_of(imported, Role::kResponder);
  EXPECT_EQ(network.lost, std::vector<uint32_t>{3});
  EXPECT_EQ(network.repeated, std::vector<uint32_t>{1});
}

TEST(ImportTest, WhatTheWirePutBehindOthersMakesNoCaseOfItsReceiver) {
  trace::Capture capture = capture_with_nak();
  capture.frames[2].comment = "request; wire: put behind up to 9 later ones";
  const Imported imported = import_capture(capture, "x.pcap", "");
  ASSERT_EQ(imported.cases.size(), 1U);
  EXPECT_EQ(imported.cases[0].c.role, Role::kRequester);
  ASSERT_EQ(imported.skipped.size(), 1U);
  EXPECT_NE(imported.skipped[0].find("behind later ones"), std::string::npos);
}

}  // namespace
}  // namespace verbena::conformance
