// The environment that makes a program see Verbena's devices, and the one that a daemon gets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/layout.h"
#include "tools/run_dir.h"

namespace verbena::tools {

using Setting = std::pair<std::string, std::string>;  // variable, value

// LD_PRELOAD, IBV_DRIVERS and VERBENA_DIR; with a device also VERBENA_DEVICE, which hides the
// others. What LD_PRELOAD and IBV_DRIVERS hold already is kept, behind ours; done twice it
// changes nothing.
[[nodiscard]] std::vector<Setting> program_environment(const RunDir& dir, const Layout& layout,
                                                       const std::string& device);

// This process's environment ("NAME=value") without our preload library: a daemon started from a
// shell that has it must not look at its own virtual devices.
[[nodiscard]] std::vector<std::string> daemon_environment();

// Throws CommandError, with the names that there are, unless the daemon in `dir` has this device.
void check_device_name(const RunDir& dir, const std::string& device);

}  // namespace verbena::tools
