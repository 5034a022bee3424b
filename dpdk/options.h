// The daemon's command line as typed options. Wrong words are refused with what to write instead.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dpdk/fault_model.h"
#include "dpdk/identity.h"

namespace verbena {

struct Options {
  std::string dir;  // absolute
  std::array<DeviceIdentity, 2> devices;
  FaultSettings faults;
  bool poll = false;      // never sleep
  uint32_t idle_ms = 50;  // sleep after so long without work
  bool foreground = false;
  std::string log_level = "info";
  int ready_fd = -1;  // a byte is written here when the daemon serves; -1 = none
};

struct ParsedOptions {
  Options options;
  // Set when the program ends here: help, version, or an error text for stderr.
  bool stop = false;
  int exit_status = 0;
  std::string text;
};

ParsedOptions parse_options(int argc, const char* const* argv);

// "NAME[,ip=A.B.C.D][,vendor=mlx5|rxe|ID[:PART]]" into `device`, which holds the defaults. Returns
// what is wrong, or an empty string.
std::string parse_device(std::string_view text, DeviceIdentity& device);

// "drop=P,dup=P,reorder=P,corrupt=P,seed=N" with P a fraction ("0.01") or a percentage ("1%").
std::string parse_faults(std::string_view text, FaultSettings& faults);

}  // namespace verbena
