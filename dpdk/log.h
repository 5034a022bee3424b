// The daemon's log: verbenad.log in the instance directory, at most 2 MiB in two files.
//
// Control thread and start-up only: nothing in the data path logs.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace verbena {

// Levels: trace, debug, info, warn, error. Throws std::runtime_error when the file cannot be made.
void open_log(const std::string& path, const std::string& level);

namespace log {

enum class Level { kInfo, kWarn, kError };
void write(Level level, std::string_view text);

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace log
}  // namespace verbena
