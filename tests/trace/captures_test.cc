// Every capture in pcaps/: who talks to whom, and what went wrong there. The rows were written from
// what is known of how each capture was made (pcaps/README.md), not from what the code says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "stack/wire/syndrome.h"
#include "tools/trace/conversation.h"

namespace verbena::trace {
namespace {

struct Troubles {
  int again = 0;     // request packets sent again
  int timeouts = 0;  // how often, each for its reason
  int after_nak = 0;
  int after_rnr = 0;
  int responses_again = 0;
  int sequence_naks = 0;
  int other_naks = 0;
  int rnr_naks = 0;
  int bad_icrc = 0;
  bool operator==(const Troubles&) const = default;
};

void PrintTo(const Troubles& t, std::ostream* out) {
  *out << "again " << t.again << " timeouts " << t.timeouts << " after_nak " << t.after_nak
       << " after_rnr " << t.after_rnr << " responses_again " << t.responses_again
       << " sequence_naks " << t.sequence_naks << " other_naks " << t.other_naks << " rnr_naks "
       << t.rnr_naks << " bad_icrc " << t.bad_icrc;
}

// Captures that are not here have no trouble.
const std::map<std::string, Troubles>& troubles() {
  static const std::map<std::string, Troubles> all = {
      {"rc_rnr_nak", {.again = 5, .after_rnr = 5, .rnr_naks = 5}},
      {"rc_rnr_exceeded", {.again = 2, .after_rnr = 2, .rnr_naks = 3}},
      {"rc_seq_nak", {.again = 3, .after_nak = 1, .sequence_naks = 1}},
      {"rc_swap_request", {.again = 4, .after_nak = 2, .sequence_naks = 2}},
      {"rc_timeout_request", {.again = 1, .timeouts = 1}},
      {"rc_timeout_ack", {.again = 3, .timeouts = 1}},
      {"rc_read_response_lost", {.again = 1, .timeouts = 1, .responses_again = 2}},
      {"rc_atomic_ack_lost", {.again = 1, .timeouts = 1}},
      {"rc_retry_exceeded", {.again = 2, .timeouts = 2}},
      {"rc_nak_rkey_write", {.other_naks = 1}},
      {"rc_nak_rkey_read", {.other_naks = 1}},
      {"rc_nak_range", {.other_naks = 1}},
      {"rc_nak_perm", {.other_naks = 1}},
      {"rc_nak_too_long", {.other_naks = 1}},
      {"rc_nak_qp_write", {.other_naks = 1}},
      {"rc_nak_qp_read", {.other_naks = 1}},
      {"badicrc_send", {.again = 2, .after_nak = 1, .sequence_naks = 1, .bad_icrc = 1}},
      // Single packets that have nothing to do with each other.
      {"gem5-ipv6-golden", {.sequence_naks = 1, .rnr_naks = 1}},
  };
  return all;
}

struct Ends {
  Service service;
  Qpn first = 0;   // of side 0: the requester; 0: not known
  Qpn second = 0;  // of side 1
  auto operator<=>(const Ends&) const = default;
};

void PrintTo(const Ends& ends, std::ostream* out) {
  *out << "service " << static_cast<int>(ends.service) << " " << std::hex << ends.first << "-"
       << ends.second;
}

constexpr auto kRc = Service::kRc;

// From what the programs printed when the captures were taken.
const std::map<std::string, std::multiset<Ends>>& connections() {
  static const std::map<std::string, std::multiset<Ends>> all = {
      {"rc_send", {{kRc, 0x75, 0x13d}}},
      {"rc_send_mtu4096", {{kRc, 0x76, 0x13e}}},
      {"rc_send_long", {{kRc, 0x7b, 0x143}}},
      {"rc_psn_wrap", {{kRc, 0x7c, 0x144}}},
      {"rc_read_pipelined", {{kRc, 0x80, 0x148}}},
      {"rc_mixed", {{kRc, 0x82, 0x14a}}},
      {"uc_send", {{Service::kUc, 0, 0x14c}}},
      {"uc_write", {{Service::kUc, 0, 0x14d}}},
      {"ud_send", {{Service::kUd, 0x86, 0x14e}}},
      {"rc_retry_exceeded", {{kRc, 0, 0x158}}},
      {"badicrc_send", {{kRc, 0x98, 0x160}}},
      {"ipv6_rc", {{kRc, 0x99, 0x161}}},
      {"ipv6_linklocal_rc", {{kRc, 0x9a, 0x162}}},
      {"cm_reject", {{Service::kGsi, 1, 1}}},
      {"cm_rping", {{Service::kGsi, 1, 1}, {kRc, 0x9c, 0x164}}},
      {"cm_rping_ipv6", {{Service::kGsi, 1, 1}, {kRc, 0x9d, 0x165}}},
      {"cm_ucmatose", {{Service::kGsi, 1, 1}, {kRc, 0x166, 0x9e}, {kRc, 0x167, 0x9f}}},
      {"cm_udaddy", {{Service::kGsi, 1, 1}, {Service::kUd, 0xa1, 0x168}}},
  };
  return all;
}

Capture captured(const std::string& name) {
  return read_capture(std::filesystem::path(VERBENA_PCAP_DIR) / (name + ".pcap"));
}

class Captures : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    capture_ = captured(GetParam());
    ASSERT_EQ(capture_.error, "");
    trace_ = analyse(capture_);
  }

  Capture capture_;
  Trace trace_;
};

void count_response(const wire::ParsedPacket& packet, Troubles& found) {
  if (!packet.info->has_aeth) return;
  const SyndromeKind kind = syndrome_kind(packet.syndrome);
  if (kind == SyndromeKind::kRnrNak) ++found.rnr_naks;
  if (kind != SyndromeKind::kNak) return;
  ++(packet.syndrome == nak_syndrome(NakCode::kPsnSequence) ? found.sequence_naks
                                                            : found.other_naks);
}

Troubles troubles_of(const Trace& trace) {
  Troubles found;
  std::set<Index> causes;
  for (const TracedPacket& traced : trace.packets) {
    if (traced.drop == DropReason::kBadIcrc) ++found.bad_icrc;
    if (!traced.good()) continue;
    count_response(*traced.packet, found);
    if (traced.place != Place::kAgain) continue;
    if (traced.packet->info->is_response()) {
      ++found.responses_again;
      continue;
    }
    ++found.again;
    if (traced.cause == Cause::kTimeout) {
      if (!traced.continues) ++found.timeouts;
    } else if (causes.insert(traced.cause_packet).second) {
      ++(traced.cause == Cause::kRnr ? found.after_rnr : found.after_nak);
    }
  }
  return found;
}

TEST_P(Captures, TroublesAreThoseItWasMadeWith) {
  const auto expected = troubles().find(GetParam());
  EXPECT_EQ(troubles_of(trace_), expected == troubles().end() ? Troubles{} : expected->second);
}

// What holds whatever is in a capture.
TEST_P(Captures, ReferencesPointWhereTheyMay) {
  EXPECT_EQ(trace_.packets.size() + trace_.other_frames + trace_.rocev1_frames,
            capture_.frames.size());
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    const TracedPacket& traced = trace_.packets[i];
    EXPECT_TRUE(traced.packet || traced.drop);
    for (const Index before :
         {traced.repeats, traced.answers, traced.answers_from, traced.cause_packet}) {
      if (before == kNoIndex) continue;
      ASSERT_LT(before, i);
      EXPECT_EQ(trace_.packets[before].connection, traced.connection);
    }
    for (const Index after : {traced.answered_by, traced.consequence}) {
      if (after == kNoIndex) continue;
      ASSERT_GT(after, i);
      EXPECT_EQ(trace_.packets[after].connection, traced.connection);
    }
    if (traced.answers != kNoIndex) {
      EXPECT_NE(trace_.packets[traced.answers].side, traced.side);
    }
  }
}

// In captures without trouble each request that asks for it is answered.
TEST_P(Captures, EachRequestFindsItsAnswer) {
  if (troubles().contains(GetParam())) return;
  for (const TracedPacket& traced : trace_.packets) {
    if (traced.connection == kNoIndex) continue;
    const Connection& connection = trace_.connections[traced.connection];
    if (connection.service != Service::kRc || connection.pairing == Pairing::kOneSided) continue;
    EXPECT_EQ(traced.place, Place::kNew) << "packet " << traced.number;
    EXPECT_EQ(traced.missing, 0U) << "packet " << traced.number;
    const bool response = traced.packet->info->is_response();
    EXPECT_NE(response ? traced.answers : traced.answered_by, kNoIndex)
        << "packet " << traced.number;
  }
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(VERBENA_PCAP_DIR)) {
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& capture) {
  std::string name = capture.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Captures, testing::ValuesIn(capture_names()), test_name);

TEST(CaptureRows, ConnectionsAreThoseOfThePrograms) {
  for (const auto& [name, expected] : connections()) {
    const Capture capture = captured(name);
    ASSERT_EQ(capture.error, "");
    std::multiset<Ends> found;
    for (const Connection& connection : analyse(capture).connections) {
      found.insert({connection.service, connection.sides[0].qpn.value_or(0),
                    connection.sides[1].qpn.value_or(0)});
    }
    EXPECT_EQ(found, expected) << name;
  }
}

// A row for a capture that is not there would check nothing.
TEST(CaptureRows, TroublesHaveTheirFiles) {
  const std::vector<std::string> names = capture_names();
  const std::set<std::string> there(names.begin(), names.end());
  for (const auto& [name, row] : troubles()) EXPECT_TRUE(there.contains(name)) << name;
}

}  // namespace
}  // namespace verbena::trace
