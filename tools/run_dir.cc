#include "tools/run_dir.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "tools/error.h"

namespace verbena::tools {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxName = 32;
constexpr mode_t kOthers = 077;  // no right at all for group and others

const char* environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// XDG_RUNTIME_DIR often outlives a change of user (su, sudo, a container): then it is another's.
bool usable_runtime_dir(const char* path) {
  struct stat st {};
  return path[0] == '/' && ::stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
         st.st_uid == ::geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
         ::access(path, W_OK | X_OK) == 0;
}

fs::path base_directory() {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  if (runtime != nullptr && usable_runtime_dir(runtime)) return fs::path(runtime) / "verbena";
  return fmt::format("/tmp/verbena-{}", ::geteuid());
}

void check_name(std::string_view name) {
  const bool characters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (characters && !name.empty() && name.size() <= kMaxName && name.front() != '.') return;
  throw CommandError(
      fmt::format("'{}' cannot be the name of a daemon", name),
      fmt::format("use 1 to {} letters, digits, '-', '_' or '.', not beginning with '.'",
                  kMaxName));
}

void check_directory(const fs::path& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) {
    throw CommandError(fmt::format("{}: {}", path.string(), std::strerror(errno)), "verbena up");
  }
  if (S_ISLNK(st.st_mode)) {
    throw CommandError(
        fmt::format("{} is a symbolic link, which could lead anywhere", path.string()),
        fmt::format("rm {}", path.string()));
  }
  if (!S_ISDIR(st.st_mode)) {
    throw CommandError(fmt::format("{} is not a directory", path.string()),
                       fmt::format("rm {}", path.string()));
  }
  if (st.st_uid != ::geteuid()) {
    throw CommandError(
        fmt::format("{} belongs to user {}, not to you (user {})", path.string(), st.st_uid,
                    ::geteuid()),
        "set VERBENA_DIR to a directory of your own, or XDG_RUNTIME_DIR to your runtime directory");
  }
  if ((st.st_mode & kOthers) != 0) {
    throw CommandError(fmt::format("{} is open to other users (mode {:o})", path.string(),
                                   static_cast<unsigned>(st.st_mode & 07777)),
                       fmt::format("chmod 700 {}", path.string()));
  }
}

void make_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  throw CommandError(fmt::format("cannot create {}: {}", path.string(), std::strerror(errno)),
                     "set VERBENA_DIR to a directory that can be created");
}

}  // namespace

std::string RunDir::name_option() const {
  return name.empty() || name == "default" ? "" : " --name " + name;
}

RunDir find_run_dir(std::string_view name) {
  RunDir dir;
  const char* chosen = environment("VERBENA_DIR");
  if (name.empty() && chosen != nullptr) {
    dir.path = fs::absolute(chosen).lexically_normal();
    if (!dir.path.has_filename()) dir.path = dir.path.parent_path();
  } else {
    dir.name = name.empty() ? "default" : std::string(name);
    check_name(dir.name);
    dir.base = base_directory();
    dir.path = dir.base / dir.name;
  }
  if (dir.socket().native().size() >= sizeof(sockaddr_un::sun_path)) {
    throw CommandError(fmt::format("{} is too long for a Unix socket ({} characters at most)",
                                   dir.socket().string(), sizeof(sockaddr_un::sun_path) - 1),
                       "set VERBENA_DIR or XDG_RUNTIME_DIR to a shorter path");
  }
  return dir;
}

void check_run_dir(const RunDir& dir) {
  if (!dir.base.empty()) check_directory(dir.base);
  check_directory(dir.path);
}

void create_run_dir(const RunDir& dir) {
  if (!dir.base.empty()) {
    make_directory(dir.base);
    check_directory(dir.base);  // before anything is made inside it
  }
  make_directory(dir.path);
  check_run_dir(dir);
}

std::vector<std::string> instance_names(const RunDir& dir) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path base = dir.base.empty() ? base_directory() : dir.base;
  for (const auto& entry : fs::directory_iterator(base, error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace verbena::tools
