// What `verbena doctor` looks at. Each check tries the thing itself rather than a version number,
// and changes nothing on the machine.
#pragma once

#include <string>
#include <vector>

#include "tools/run_dir.h"

namespace verbena::tools {

enum class Level { kOk, kWarn, kFail };

struct Finding {
  Level level;
  std::string name;
  std::string text;
  std::string help;  // a command or a change that helps; empty when ok
};

// Parts of Verbena and of rdma-core.
void check_parts(std::vector<Finding>* findings);
// Kernel interfaces and limits that daemon and provider need.
void check_kernel(std::vector<Finding>* findings);
void check_limits(std::vector<Finding>* findings);
// The instance directory and the daemon in it.
void check_daemon(const RunDir& dir, std::vector<Finding>* findings);
// Programs that one runs with Verbena.
void check_programs(std::vector<Finding>* findings);

}  // namespace verbena::tools
