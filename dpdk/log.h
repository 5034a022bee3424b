// The daemon's log: verbenad.log in the instance directory, at most 2 MiB in two files.
//
// Control thread and start-up only: nothing in the data path logs.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace verbena {

// Levels: trace, debug, info, warn, error. Throws spdlog::spdlog_ex when the file cannot be made.
void open_log(const std::string& path, const std::string& level);

}  // namespace verbena
