// Starting the daemon in the background, for `up` and for `run`.
#pragma once

#include <string>
#include <vector>

#include "tools/layout.h"
#include "tools/run_dir.h"

namespace verbena::tools {

// What `up` was asked for, in the daemon's own syntax. Empty: the default pair of devices.
struct DaemonOptions {
  std::vector<std::string> devices;  // NAME[,ip=..][,vendor=..]
  std::vector<std::string> faults;   // rules for the wire: drop=..,dup=..,delay=..
  bool poll = false;

  [[nodiscard]] bool any() const { return !devices.empty() || !faults.empty() || poll; }
};

enum class Started { kNow, kWasUp };

// Returns when the daemon serves. Two callers at the same time start one daemon. Throws
// CommandError with the daemon's words when it refuses the options, with the end of its log when it
// does not come up for another reason, and when one is up already and `options` ask for something
// particular.
Started start_daemon(const RunDir& dir, const Layout& layout, const DaemonOptions& options);

}  // namespace verbena::tools
