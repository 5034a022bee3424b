// Every capture in pcaps/ through the parser, the ICRC, the description and back out of emission.
//
// pcaps/expected.txt says what is in each file; a file without a row, or a row without a file,
// fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "stack/base/bytes.h"
#include "stack/wire/describe.h"
#include "stack/wire/emit.h"
#include "stack/wire/parse.h"
#include "tests/support/golden_frames.h"
#include "tools/trace/capture_reader.h"

namespace verbena::wire {
namespace {

using Counts = std::map<std::string, int>;

std::filesystem::path pcap_dir() {
  return VERBENA_PCAP_DIR;
}

std::map<std::string, Counts> expected_counts() {
  std::map<std::string, Counts> expected;
  std::ifstream file(pcap_dir() / "expected.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    std::string word;
    words >> name;
    Counts& counts = expected[name];
    while (words >> word) {
      const size_t colon = word.find(':');
      counts[word.substr(0, colon)] = std::stoi(word.substr(colon + 1));
    }
  }
  return expected;
}

std::string hex_opcode(uint8_t opcode) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", unsigned{opcode});
  return text;
}

class PcapReplay : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    capture_ = trace::read_capture(pcap_dir() / GetParam());
    ASSERT_EQ(capture_.error, "");
    ASSERT_FALSE(capture_.frames.empty());
  }

  trace::Capture capture_;
};

TEST_P(PcapReplay, HoldsWhatIsExpected) {
  Counts counts;
  for (const auto& captured : capture_.frames) {
    const test::Bytes& frame = captured.bytes;
    const auto parsed = parse(frame);
    const auto* packet = std::get_if<ParsedPacket>(&parsed);
    if (packet == nullptr) {
      const std::string name(drop_reason_name(std::get<DropReason>(parsed)));
      ++counts[name];
      EXPECT_EQ(describe(frame), "dropped: " + name);
      continue;
    }
    ++counts[hex_opcode(packet->opcode)];
    if (!icrc_valid(*packet)) ++counts["bad_icrc"];
    EXPECT_NE(describe(frame).find(packet->info->name), std::string::npos);
  }
  EXPECT_EQ(counts, expected_counts()[GetParam()]);
}

Path path_of(const ParsedPacket& packet) {
  Path path;
  path.source_mac = packet.source_mac;
  path.dest_mac = packet.dest_mac;
  path.source_gid = packet.source_gid;
  path.dest_gid = packet.dest_gid;
  path.source_port = packet.source_port;
  path.traffic_class = packet.traffic_class;
  if (packet.ip[0] >> 4 == 6) path.flow_label = load_be32(packet.ip.data()) & 0xFFFFF;
  return path;
}

PacketSpec spec_of(const ParsedPacket& packet, const Path& path) {
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = static_cast<Opcode>(packet.opcode);
  spec.solicited = packet.solicited;
  spec.ack_req = packet.ack_req;
  spec.mig_req = packet.mig_req;
  spec.becn = packet.becn;
  spec.pkey = packet.pkey;
  spec.ip_id = load_be16(packet.ip.data() + 4);
  spec.dest_qpn = packet.dest_qpn;
  spec.psn = packet.psn;
  spec.va = packet.va;
  spec.rkey = packet.rkey;
  spec.dma_length = packet.dma_length;
  spec.swap_add = packet.swap_add;
  spec.compare = packet.compare;
  spec.syndrome = packet.syndrome;
  spec.msn = packet.msn;
  spec.atomic_original = packet.atomic_original;
  spec.imm_wire = packet.imm_wire;
  spec.invalidate_rkey = packet.invalidate_rkey;
  spec.qkey = packet.qkey;
  spec.source_qpn = packet.source_qpn;
  spec.payload_bytes = static_cast<uint32_t>(packet.payload.size());
  return spec;
}

// Emission gives the bytes that the kernel and the adapters sent. Left out: the UDP checksum, which
// is optional and which Verbena does not send, and what a corrupted frame holds.
TEST_P(PcapReplay, EmissionGivesTheSameBytes) {
  for (const auto& captured : capture_.frames) {
    const test::Bytes& frame = captured.bytes;
    const auto parsed = parse(frame);
    const auto* packet = std::get_if<ParsedPacket>(&parsed);
    if (packet == nullptr || !icrc_valid(*packet)) continue;
    const Path path = path_of(*packet);
    const PacketSpec spec = spec_of(*packet, path);
    test::Bytes again(frame_bytes(spec), 0xCC);
    std::copy(packet->payload.begin(), packet->payload.end(), emit_headers(spec, again.data()));
    finish(spec, again.data());

    test::Bytes original(packet->ip.begin(), packet->ip.end());
    const size_t udp_at = original[0] >> 4 == 6 ? 40 : 20;
    original[udp_at + 6] = original[udp_at + 7] = 0;
    ASSERT_EQ(test::Bytes(again.begin() + 14, again.end()), original) << describe(frame);
    ASSERT_TRUE(std::equal(again.begin(), again.begin() + 12, frame.begin()));
  }
}

std::vector<std::string> pcap_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(pcap_dir())) {
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Pcaps, PcapReplay, testing::ValuesIn(pcap_files()), [](const auto& file) {
  std::string name = file.param.substr(0, file.param.find('.'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(PcapFolder, EveryFileHasARowAndEveryRowAFile) {
  std::set<std::string> rows;
  for (const auto& [name, counts] : expected_counts()) rows.insert(name);
  const std::vector<std::string> files = pcap_files();
  EXPECT_EQ(rows, std::set<std::string>(files.begin(), files.end()));
  EXPECT_GE(files.size(), 50U);
}

TEST(PcapFolder, TimesAreInNanosecondsSinceTheEpochAndAllFramesWhole) {
  const trace::Capture capture = trace::read_capture(pcap_dir() / "rc_send.pcap");
  ASSERT_EQ(capture.frames.size(), 79U);
  EXPECT_EQ(capture.frames.front().time, 1'795'974'649'657'802'000U);  // as tshark reads it
  EXPECT_TRUE(std::none_of(capture.frames.begin(), capture.frames.end(),
                           [](const auto& frame) { return frame.missing_bytes > 0; }));
}

TEST(PcapFolder, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(trace::read_capture(pcap_dir() / "none.pcap").error,
            (pcap_dir() / "none.pcap").string() + ": No such file or directory");
}

// The placeholder ICRC of this FPGA simulation is wrong in all frames, which shows once their IP
// checksum, which it leaves 0, is made right.
TEST(PcapFolder, PlaceholderIcrcsAreInvalid) {
  trace::Capture capture = trace::read_capture(pcap_dir() / "strom-fpga-placeholder-icrc.pcap");
  ASSERT_EQ(capture.frames.size(), 5U);
  for (auto& captured : capture.frames) {
    test::Bytes& frame = captured.bytes;
    test::fix_ip_checksum(frame);
    const auto parsed = parse(frame);
    ASSERT_TRUE(std::holds_alternative<ParsedPacket>(parsed));
    EXPECT_FALSE(icrc_valid(std::get<ParsedPacket>(parsed)));
  }
}

}  // namespace
}  // namespace verbena::wire
