// Frames for a live device: other hosts in the place of the capture's, right and wrong as before.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "stack/wire/parse.h"
#include "tools/conformance/frame_edit.h"
#include "tools/conformance/names.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// What the parser says of a frame: nothing when it is right.
std::optional<DropReason> fault_of(const std::vector<uint8_t>& frame) {
  const auto parsed = wire::parse(frame);
  if (const auto* reason = std::get_if<DropReason>(&parsed)) return *reason;
  const auto& packet = *std::get_if<ParsedPacket>(&parsed);
  return wire::icrc_valid(packet) ? std::nullopt : std::optional(DropReason::kBadIcrc);
}

FrameEdit edit_for(bool ipv4) {
  const auto gid = [&](const char* v4, const char* v6) { return *parse_ip(ipv4 ? v4 : v6); };
  FrameEdit edit;
  edit.dest_qpn = 0xABCDE;
  edit.hosts = {
      {*parse_mac("02:00:5e:10:00:01"), gid("192.0.2.1", "2001:db8::1"),
       *parse_mac("52:54:00:77:00:02"), gid("10.77.255.2", "fd77::ff:2")},
      {*parse_mac("02:00:5e:10:00:02"), gid("192.0.2.2", "2001:db8::2"),
       *parse_mac("52:54:00:77:00:03"), gid("10.77.0.1", "fd77::1")},
  };
  return edit;
}

struct Input {
  const char* name;
  bool ipv4;
};

void PrintTo(const Input& input, std::ostream* out) {
  *out << input.name;
}

class HostsTest : public testing::TestWithParam<Input> {};

TEST_P(HostsTest, RightStaysRightAndWrongStaysWrong) {
  const auto capture =
      trace::read_capture(std::string(VERBENA_PCAP_DIR) + "/rules/" + GetParam().name + ".pcap");
  ASSERT_FALSE(capture.frames.empty());
  const FrameEdit edit = edit_for(GetParam().ipv4);
  for (const trace::CapturedFrame& frame : capture.frames) {
    const std::vector<uint8_t> changed = edited(frame.bytes, edit);
    EXPECT_EQ(fault_of(changed), fault_of(frame.bytes));
    EXPECT_EQ(changed.size(), frame.bytes.size());
  }
  const auto parsed = wire::parse(edited(capture.frames[0].bytes, edit));
  const auto& packet = std::get<ParsedPacket>(parsed);
  EXPECT_EQ(packet.dest_gid, edit.hosts[0].new_gid);
  EXPECT_EQ(packet.source_gid, edit.hosts[1].new_gid);
  EXPECT_EQ(packet.dest_mac, edit.hosts[0].new_mac);
  EXPECT_EQ(packet.source_mac, edit.hosts[1].new_mac);
  EXPECT_EQ(packet.dest_qpn, *edit.dest_qpn);
}

INSTANTIATE_TEST_SUITE_P(
    Captures, HostsTest,
    testing::Values(Input{"rsp-psn-wrap", true}, Input{"hdr-icrc", true},
                    Input{"hdr-ip-checksum", true}, Input{"hdr-udp-checksum", true},
                    Input{"hdr-udp-checksum-right", true}, Input{"hdr-ip-options", true},
                    Input{"hdr-udp-port", true}, Input{"hdr-cut-33", true}, Input{"hdr-vlan", true},
                    Input{"hdr-ipv6", false}, Input{"hdr-udp-checksum-ipv6", false},
                    Input{"hdr-udp-checksum-right-ipv6", false}, Input{"hdr-ipv6-version", false}));

TEST(HostsTest, OthersAreLeftAsTheyAre) {
  const auto capture =
      trace::read_capture(std::string(VERBENA_PCAP_DIR) + "/rules/hdr-other-source.pcap");
  const auto before = wire::parse(capture.frames[2].bytes);
  const std::vector<uint8_t> frame = edited(capture.frames[2].bytes, edit_for(true));
  const auto after = wire::parse(frame);
  EXPECT_EQ(std::get<ParsedPacket>(after).source_gid, std::get<ParsedPacket>(before).source_gid);
  EXPECT_EQ(std::get<ParsedPacket>(after).source_mac, std::get<ParsedPacket>(before).source_mac);
  EXPECT_EQ(fault_of(frame), std::nullopt);
}

}  // namespace
}  // namespace verbena::conformance
