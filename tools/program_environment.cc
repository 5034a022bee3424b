#include "tools/program_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "tools/error.h"

namespace verbena::tools {

namespace {

constexpr std::string_view kPreloadName = "libverbena-preload.so";
constexpr std::string_view kDriverName = "libverbena";

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool has_file_name(std::string_view path, std::string_view name) {
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '/');
}

// `entry` in front of those entries of `list` that are not a Verbena's, this or another build's.
std::string put_first(const std::string& entry, const char* list, std::string_view separators,
                      std::string_view own_name) {
  std::string result = entry;
  if (list == nullptr) return result;
  for (const std::string& other : split(list, separators)) {
    if (!has_file_name(other, own_name)) result += ':' + other;
  }
  return result;
}

}  // namespace

std::vector<Setting> program_environment(const RunDir& dir, const Layout& layout,
                                         const std::string& device) {
  std::vector<Setting> settings = {
      {"LD_PRELOAD",
       put_first(layout.preload.string(), std::getenv("LD_PRELOAD"), " :", kPreloadName)},
      {"IBV_DRIVERS", put_first(layout.driver(), std::getenv("IBV_DRIVERS"), ":;", kDriverName)},
      {"VERBENA_DIR", dir.path.string()}};
  if (!device.empty()) settings.emplace_back("VERBENA_DEVICE", device);
  return settings;
}

std::vector<std::string> daemon_environment() {
  constexpr std::string_view kPreloadVariable = "LD_PRELOAD=";
  std::vector<std::string> result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view setting = *entry;
    if (!setting.starts_with(kPreloadVariable)) {
      result.emplace_back(setting);
      continue;
    }
    std::vector<std::string> kept = split(setting.substr(kPreloadVariable.size()), " :");
    std::erase_if(kept, [](const std::string& e) { return has_file_name(e, kPreloadName); });
    if (!kept.empty()) {
      result.push_back(fmt::format("{}{}", kPreloadVariable, fmt::join(kept, ":")));
    }
  }
  return result;
}

void check_device_name(const RunDir& dir, const std::string& device) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir.sysfs_devices(), error)) {
    names.push_back(entry.path().filename().string());
  }
  if (std::find(names.begin(), names.end(), device) != names.end()) return;
  std::sort(names.begin(), names.end());
  throw CommandError(fmt::format("there is no device '{}'", device),
                     names.empty() ? fmt::format("verbena status{}", dir.name_option())
                                   : fmt::format("use one of: {}", fmt::join(names, ", ")));
}

}  // namespace verbena::tools
