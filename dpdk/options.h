// The daemon's command line as typed options. Wrong words are refused with what to write instead.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk/fault_rule.h"
#include "dpdk/identity.h"

namespace verbena {

struct Options {
  std::string dir;  // absolute
  std::array<DeviceIdentity, 2> devices;
  std::vector<FaultRule> faults;
  bool poll = false;      // never sleep
  uint32_t idle_ms = 50;  // sleep after so long without work
  bool foreground = false;
  std::string log_level = "info";
  int ready_fd = -1;  // see tell_starter() in main.cc; -1 = none
};

struct ParsedOptions {
  Options options;
  // Set when the program ends here: help, version, or an error text for stderr.
  bool stop = false;
  int exit_status = 0;
  std::string text;
  Refusal refusal;  // with an error text
};

ParsedOptions parse_options(int argc, const char* const* argv);

// "NAME[,ip=A.B.C.D][,vendor=mlx5|rxe|ID[:PART]]" into `device`, which holds the defaults. Returns
// what is wrong, or an empty string.
std::string parse_device(std::string_view text, DeviceIdentity& device);

}  // namespace verbena
