// The command line: what is taken, and that what is refused is refused with words that help.

#include "dpdk/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace verbena {
namespace {

using testing::HasSubstr;

ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "verbenad");
  return parse_options(static_cast<int>(words.size()), words.data());
}

std::string complaint(const std::vector<const char*>& words) {
  const auto parsed = parse(words);
  EXPECT_TRUE(parsed.stop);
  EXPECT_EQ(parsed.exit_status, 2);
  return parsed.text;
}

TEST(OptionsTest, DefaultsAreTwoWiredDevices) {
  const auto parsed = parse({"--dir", "/tmp/x"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  const auto& options = parsed.options;
  EXPECT_EQ(options.devices[0].name, "verbena0");
  EXPECT_EQ(options.devices[0].ip_text(), "10.99.0.1");
  EXPECT_EQ(options.devices[0].mac_text(), "02:56:42:63:00:01");
  EXPECT_EQ(options.devices[0].guid_text(), "0056:42ff:fe63:0001");
  EXPECT_EQ(options.devices[1].name, "verbena1");
  EXPECT_EQ(options.devices[1].ip_text(), "10.99.0.2");
  EXPECT_EQ(options.devices[1].vendor_id, kOwnVendorId);
  EXPECT_TRUE(options.faults.empty());
  EXPECT_EQ(options.idle_ms, 50U);
}

TEST(OptionsTest, DevicesTakeNameAddressAndVendor) {
  const auto parsed = parse({"--dir", "/tmp/x", "--device", "mlx5_0,vendor=mlx5,ip=192.168.7.9",
                             "--device", "rxe0,vendor=0x1234:7,migreq=0"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  EXPECT_EQ(parsed.options.devices[0].name, "mlx5_0");
  EXPECT_EQ(parsed.options.devices[0].ip_text(), "192.168.7.9");
  EXPECT_EQ(parsed.options.devices[0].vendor_id, 0x02C9U);
  EXPECT_EQ(parsed.options.devices[0].part_id, 4119U);
  EXPECT_TRUE(parsed.options.devices[0].mig_req);
  EXPECT_FALSE(parsed.options.devices[1].mig_req);
  EXPECT_EQ(parsed.options.devices[1].ip_text(), "10.99.0.2");
  EXPECT_EQ(parsed.options.devices[1].vendor_id, 0x1234U);
  EXPECT_EQ(parsed.options.devices[1].part_id, 7U);
}

TEST(OptionsTest, WrongDevicesSayWhatToWrite) {
  const auto device = [](const char* text) {
    return complaint({"--dir", "/tmp/x", "--device", text, "--device", "other,ip=10.1.1.1"});
  };
  EXPECT_THAT(complaint({"--dir", "/tmp/x", "--device", "a"}), HasSubstr("twice or not at all"));
  EXPECT_THAT(device("a/b"), HasSubstr("letters, digits"));
  EXPECT_THAT(device(""), HasSubstr("letters, digits"));
  EXPECT_THAT(device("..,ip=1.2.3.4"), HasSubstr("letters, digits"));
  EXPECT_THAT(device(std::string(64, 'a').c_str()), HasSubstr("at most 63"));
  EXPECT_THAT(device("a,ip=10.99.0"), HasSubstr("ip=10.99.0.1"));
  EXPECT_THAT(device("a,ip=224.0.0.1"), HasSubstr("unicast"));
  EXPECT_THAT(device("a,ip=127.0.0.1"), HasSubstr("unicast"));
  EXPECT_THAT(device("a,vendor=nobody"), HasSubstr("mlx5, rxe or ID"));
  EXPECT_THAT(device("a,vendor=0"), HasSubstr("mlx5, rxe or ID"));
  EXPECT_THAT(device("a,migreq=2"), HasSubstr("migreq=0 or migreq=1"));
  EXPECT_THAT(device("a,colour=red"), HasSubstr("NAME[,ip=A.B.C.D]"));
  EXPECT_THAT(device("other"), HasSubstr("different names"));
  EXPECT_THAT(device("a,ip=10.1.1.1"), HasSubstr("different ones"));
  EXPECT_THAT(device("a,ip=11.1.1.1"), HasSubstr("MAC"));
}

TEST(OptionsTest, FaultsAreRules) {
  const auto parsed = parse({"--dir", "/tmp/x", "--fault", "drop=0.01,dup=2%", "--fault",
                             "from=verbena1,opcode=ACK,nth=2,drop=1"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  ASSERT_EQ(parsed.options.faults.size(), 2U);
  EXPECT_DOUBLE_EQ(parsed.options.faults[0].drop, 0.01);
  EXPECT_EQ(parsed.options.faults[1].selector.from, 1U);
}

TEST(OptionsTest, WrongFaultsSayWhatToWrite) {
  const auto parsed = parse({"--dir", "/tmp/x", "--fault", "drop=7"});
  EXPECT_EQ(parsed.refusal.what, "--fault drop=7: 'drop=7' is more than all packets");
  EXPECT_THAT(parsed.refusal.instead, HasSubstr("drop=7%"));
  EXPECT_EQ(parsed.text,
            "verbenad: " + parsed.refusal.what + ": write " + parsed.refusal.instead + "\n");
  const auto fault = [](const char* text) {
    return complaint(
        {"--dir", "/tmp/x", "--device", "a", "--device", "b,ip=10.1.1.1", "--fault", text});
  };
  EXPECT_THAT(fault("from=verbena0,drop=1"), HasSubstr("from=a or from=b"));
  EXPECT_THAT(fault(""), HasSubstr("drop=P"));
  std::vector<const char*> many = {"--dir", "/tmp/x"};
  for (int i = 0; i < 9; ++i) many.insert(many.end(), {"--fault", "drop=1%"});
  EXPECT_THAT(complaint(many), HasSubstr("at most 8"));
}

TEST(OptionsTest, DirectoryIsAbsoluteAndFitsASocket) {
  unsetenv("VERBENA_DIR");
  EXPECT_THAT(complaint({}), HasSubstr("--dir DIR"));
  setenv("VERBENA_DIR", "/tmp/from-env/", 1);
  EXPECT_EQ(parse({}).options.dir, "/tmp/from-env");
  unsetenv("VERBENA_DIR");
  EXPECT_EQ(parse({"--dir", "/tmp/a/../b"}).options.dir, "/tmp/b");
  EXPECT_EQ(parse({"--dir", "rel"}).options.dir.front(), '/');
  const std::string longest = "/" + std::string(93, 'd');
  EXPECT_EQ(parse({"--dir", longest.c_str()}).options.dir, longest);
  EXPECT_THAT(complaint({"--dir", (longest + "d").c_str()}), HasSubstr("too long"));
}

TEST(OptionsTest, UnknownWordsPointToHelp) {
  EXPECT_THAT(complaint({"--dir", "/tmp/x", "--pol"}), HasSubstr("--help"));
  EXPECT_THAT(complaint({"--dir", "/tmp/x", "--idle-ms", "soon"}), HasSubstr("--idle-ms"));
  EXPECT_THAT(complaint({"--dir", "/tmp/x", "--log-level", "loud"}), HasSubstr("--log-level"));
  const auto help = parse({"--help"});
  EXPECT_TRUE(help.stop);
  EXPECT_EQ(help.exit_status, 0);
  EXPECT_THAT(help.text, HasSubstr("--fault"));
}

}  // namespace
}  // namespace verbena
