// What the counters say about traffic that did not arrive: queue pairs that gave up, and why the
// other side, or the wire between, did not take their packets.
//
// Error completions name the effect alone (IBV_WC_RETRY_EXC_ERR: no answer came). The cause is
// counted where the packet ended.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/doctor_checks.h"

namespace verbena::tools {

// From the daemon's `stat` answer; one finding for each kind of trouble of each device, or a single
// one that says there is none. Counters are those since the daemon's start.
[[nodiscard]] std::vector<Finding> traffic_findings(const nlohmann::json& stat);

}  // namespace verbena::tools
