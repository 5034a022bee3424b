// What is wrong in a case file is named with its place, and with what to write instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tools/conformance/case_reader.h"
#include "tools/conformance/case_text.h"
#include "tools/conformance/script.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

constexpr const char* kGood = R"(title = "t"
capture = "x.pcap"
role = "responder"
[device]
ip = "10.0.0.1"
mac = "02:00:00:00:00:01"
[[qp]]
qpn = 17
peer = { ip = "10.0.0.2", mac = "02:00:00:00:00:02", qpn = 18 }
)";

std::string complaint(const std::string& text) {
  try {
    (void)parse_case(text, "dir/case.toml");
  } catch (const tools::CommandError& error) {
    return std::string(error.what()) + " | " + error.help();
  }
  return "none";
}

TEST(CaseReaderTest, ReadsWhatTheDocumentationShows) {
  const Case c = parse_case(std::string(kGood) + R"(
[network]
lost = "3"
late = [{ packet = 4, after = 6 }]
[[memory]]
va = "0xffff888000000000"
bytes = 64
key = 0x1234
access = ["REMOTE_WRITE"]
contents = [{ offset = 8, data = "hex 00 ff" }]
[[recv]]
bytes = 5000
expect = "packets 1-2, 7"
completion = { status = "SUCCESS", opcode = "RECV", byte_len = 5000 }
[[store]]
after = 7
va = "0xffff888000000010"
data = "pattern 7"
)",
                            "dir/case.toml");
  EXPECT_EQ(c.capture, "dir/x.pcap");
  EXPECT_EQ(c.network.lost, std::vector<uint32_t>{3});
  EXPECT_EQ(c.network.late.at(4), 6U);
  EXPECT_EQ(c.memories[0].va, 0xffff888000000000);
  EXPECT_EQ(c.memories[0].contents[0].data.bytes, (std::vector<uint8_t>{0, 0xff}));
  EXPECT_EQ(c.recvs[0].expect->packets, (std::vector<uint32_t>{1, 2, 7}));
  EXPECT_EQ(c.recvs[0].completion->byte_len, 5000U);
  EXPECT_EQ(c.stores[0].piece.offset, 16U);
  EXPECT_EQ(c.stores[0].when.packet, 7U);
}

struct Bad {
  const char* name;
  const char* added;  // to kGood
  const char* message;
};

void PrintTo(const Bad& bad, std::ostream* out) {
  *out << bad.name;
}

class BadCaseTest : public testing::TestWithParam<Bad> {};

TEST_P(BadCaseTest, IsRefusedWithPlaceAndHelp) {
  EXPECT_EQ(complaint(std::string(kGood) + GetParam().added), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadCaseTest,
    testing::Values(
        Bad{"UnknownKey", "[[recv]]\nbyts = 5\n",
            "dir/case.toml:11: [[recv]] 1 byts: there is no such key here | use one of after, at, "
            "before, bytes, completion, expect, qpn, sges"},
        Bad{"UnknownTable", "[[receive]]\n",
            "dir/case.toml:10: receive: there is no such key here | use one of capture, compare, "
            "device, difference, engine_only, expect, memory, modify, network, packets, play_all, "
            "qp, "
            "recv, role, rules, send, store, title, until_idle"},
        Bad{"WrongType", "[[recv]]\nbytes = \"many\"\n",
            "dir/case.toml:11: [[recv]] 1 bytes: is no number from 0 on | bytes = 0x10"},
        Bad{"TooLarge", "[[qp]]\nqpn = 0x1000000\n",
            "dir/case.toml:11: [[qp]] 2 qpn: 16777216 is too large | a number up to 16777215"},
        Bad{"Missing", "[[memory]]\nva = 0\n",
            "dir/case.toml:10: [[memory]] 1 bytes: is missing | bytes = 0x10"},
        Bad{"BadAddress", "[[qp]]\nqpn = 3\npeer = { ip = \"10.0.0\" }\n",
            "dir/case.toml:12: [[qp]] 2 peer ip: '10.0.0' is no IP address | "
            "ip = \"10.0.0.1\" or \"fd00::1\""},
        Bad{"BadWord", "[[qp]]\nqpn = 3\ntype = \"XRC\"\n",
            "dir/case.toml:12: [[qp]] 2 type: 'XRC' is not known | use RC or UD"},
        Bad{"BadData", "[[recv]]\nexpect = \"hex 0\"\n",
            "dir/case.toml:11: [[recv]] 1 expect: 'hex 0' describes no bytes | \"zero\", "
            "\"hex 00 1f\", \"pattern 7\" or \"packets 2-5, 7\" (the payloads of these)"},
        Bad{"BadPackets", "[network]\nlost = \"5-3\"\n",
            "dir/case.toml:11: [network] lost: '5-3' is no list of packets | lost = \"1-5, 7\""},
        Bad{"NoSuchQp", "[[recv]]\nqpn = 99\n",
            "dir/case.toml:11: [[recv]] 1 qpn: no [[qp]] has the number 0x63 | one of theirs"},
        Bad{"TwoTimes", "[[recv]]\nbefore = 1\nat = 0.5\n",
            "dir/case.toml:10: [[recv]] 1: it has more than one time | one of before, after and "
            "at"},
        Bad{"BadStatus", "[[recv]]\ncompletion = \"FINE\"\n",
            "dir/case.toml:11: [[recv]] 1 completion: 'FINE' is not known | use SUCCESS, "
            "LOC_LEN_ERR, LOC_QP_OP_ERR, LOC_PROT_ERR, WR_FLUSH_ERR, MW_BIND_ERR, BAD_RESP_ERR, "
            "LOC_ACCESS_ERR, REM_INV_REQ_ERR, REM_ACCESS_ERR, REM_OP_ERR, RETRY_EXC_ERR, "
            "RNR_RETRY_EXC_ERR, REM_ABORT_ERR, FATAL_ERR or GENERAL_ERR"},
        Bad{"RoleWithoutSend", "[[send]]\n",
            "dir/case.toml:3: role: is responder, and yet there is a [[send]] | "
            "role = \"requester\", or \"both\""},
        Bad{"DifferenceOfNothing", "[[difference]]\nrule = \"r\"\nwhy = \"w\"\n",
            "dir/case.toml:10: [[difference]] 1: it says of no packet, or of two kinds, what is "
            "different | packets = \"4\", or after = 4 for a packet that the capture has not"},
        Bad{"UnknownOpcode",
            "[[difference]]\nrule = \"r\"\nwhy = \"w\"\npackets = \"1\"\n"
            "ours = { opcode = \"NACK\" }\n",
            "dir/case.toml:14: [[difference]] 1 ours opcode: 'NACK' is no opcode of RC | "
            "as tshark writes it: opcode = \"RDMA READ response First\""},
        Bad{"Impatient", "[compare]\ntimer_tolerance = 0.5\n",
            "dir/case.toml:11: [compare] timer_tolerance: is no factor from 1 to 1000 | "
            "timer_tolerance = 1.1"},
        Bad{"RegionBeyondTheLastAddress", "[[memory]]\nva = \"0xffffffffffffff00\"\nbytes = 257\n",
            "dir/case.toml:11: [[memory]] 1 va: and bytes reach beyond 2^64 | "
            "va + bytes at most 2^64"},
        Bad{"PieceBehindItsRegion",
            "[[memory]]\nva = 0\nbytes = 8\nexpect = [{ offset = 8, data = \"hex 00\" }]\n",
            "dir/case.toml:13: [[memory]] 1 [[expect]] 1 offset: 8 is too large | "
            "a number up to 7"},
        Bad{"NumberBeyond64Bits", "[[memory]]\nva = \"18446744073709551616\"\n",
            "dir/case.toml:11: [[memory]] 1 va: is no number from 0 on | va = 0x10"},
        Bad{"NumberWithASign", "[[memory]]\nva = \" -1\"\n",
            "dir/case.toml:11: [[memory]] 1 va: is no number from 0 on | va = 0x10"}),
    [](const auto& test) { return test.param.name; });

// Each of them would be some time once it is made nanoseconds.
TEST(CaseReaderTest, TimesThatAreNoneAreRefused) {
  for (const char* at : {"nan", "-nan", "inf", "-inf", "-0.001", "-1", "1e300", "1000000001",
                         "9223372036854775807", "true", "\"1\"", "[1.0]"}) {
    EXPECT_EQ(complaint(fmt::format("{}[[recv]]\nat = {}\n", kGood, at)),
              "dir/case.toml:11: [[recv]] 1 at: is no time in seconds from 0 to 1e9 | at = 0.001")
        << at;
  }
  for (const char* factor : {"nan", "inf", "-2", "1e4", "0"}) {
    EXPECT_EQ(complaint(fmt::format("{}[compare]\ntimer_tolerance = {}\n", kGood, factor)),
              "dir/case.toml:11: [compare] timer_tolerance: is no factor from 1 to 1000 | "
              "timer_tolerance = 1.1")
        << factor;
  }
  EXPECT_EQ(parse_case(std::string(kGood) + "[[recv]]\nat = 2\n", "x").recvs[0].when.at,
            2'000'000'000U);
}

TEST(CaseReaderTest, WhatIsNoTomlIsNamedByItsLine) {
  const std::string text = complaint(std::string(kGood) + "[[recv\n");
  EXPECT_EQ(text.find("dir/case.toml:10: "), 0U) << text;
}

TEST(CaseReaderTest, UnknownCounterIsRefused) {
  const std::string text = complaint(std::string(kGood) + "[expect]\ncounters = { bogus = 1 }\n");
  EXPECT_EQ(text.find("dir/case.toml:11: [expect] counters bogus: is no counter | use one of "),
            0U);
}

TEST(CaseReaderTest, FileThatIsNotThere) {
  EXPECT_THROW((void)read_case("/nowhere/x.toml"), tools::CommandError);
}

// As docs/conformance.md says: captures of other makers hold these bytes.
TEST(PatternTest, IsThatOfTheFormat) {
  const Data data{Data::Kind::kPattern, {}, 7, {}};
  const trace::Capture none;
  EXPECT_EQ(resolve(data, 4, none), (std::vector<uint8_t>{0xa9, 0x47, 0xe5, 0x84}));
}

TEST(PacketListTest, TakesRangesAndRefusesNonsense) {
  EXPECT_EQ(parse_packets("1-3, 7"), (std::vector<uint32_t>{1, 2, 3, 7}));
  for (const char* bad : {"", "0", "3-1", "1,", "x", "1-", "99999999999"}) {
    EXPECT_EQ(parse_packets(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace verbena::conformance
