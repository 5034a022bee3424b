#include "tools/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>

#include "tools/admin.h"
#include "tools/error.h"
#include "tools/pidfd.h"
#include "tools/program_environment.h"
#include "tools/unique_fd.h"

namespace verbena::tools {

namespace {

constexpr int kStartTimeoutMs = 20'000;  // a sanitised daemon on a busy machine takes seconds
constexpr int kDyingMs = 2'000;
constexpr size_t kTailLines = 12;
constexpr int kReadyFd = 3;

// flock() on the directory itself: nothing to create, nothing left behind, gone with the process.
UniqueFd lock_directory(const RunDir& dir) {
  UniqueFd fd(::open(dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() || ::flock(fd.value(), LOCK_EX) != 0) {
    throw CommandError(fmt::format("cannot lock {}: {}", dir.path.string(), std::strerror(errno)),
                       "verbena doctor");
  }
  return fd;
}

std::vector<std::string> daemon_arguments(const RunDir& dir, const Layout& layout,
                                          const DaemonOptions& options) {
  std::vector<std::string> arguments = {layout.daemon.string(),   "--dir",
                                        dir.path.string(),        "--ready-fd",
                                        std::to_string(kReadyFd), "--foreground"};
  for (const std::string& device : options.devices) {
    arguments.insert(arguments.end(), {"--device", device});
  }
  for (const std::string& fault : options.faults) {
    arguments.insert(arguments.end(), {"--fault", fault});
  }
  if (options.poll) arguments.emplace_back("--poll");
  return arguments;
}

// The child's side of the start: from here on only plain system calls.
[[noreturn]] void become_daemon(int ready_fd, int log_fd, char* const* arguments,
                                char* const* environment) {
  ::setsid();
  // The daemon must not be a child of the program that `run` turns into.
  const pid_t pid = ::fork();
  if (pid != 0) ::_exit(pid < 0 ? 1 : 0);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  // dup2() to itself would keep the close-on-exec flag.
  if (ready_fd == kReadyFd) {
    ::fcntl(ready_fd, F_SETFD, 0);
  } else {
    ::dup2(ready_fd, kReadyFd);
  }
  ::syscall(SYS_close_range, kReadyFd + 1, ~0U, 0U);
  ::umask(077);
  if (::chdir("/") == 0) ::execve(arguments[0], arguments, environment);
  ::perror("verbenad cannot be executed");
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

UniqueFd open_log(const RunDir& dir) {
  const std::string path = dir.log().string();
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    throw CommandError(fmt::format("cannot write {}: {}", path, std::strerror(errno)),
                       "verbena doctor");
  }
  return fd;
}

// The last lines that the log has grown by since it had `begin` bytes.
std::string log_tail(const RunDir& dir, std::streamoff begin) {
  std::ifstream log(dir.log());
  log.seekg(begin);
  std::deque<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    lines.push_back(line);
    if (lines.size() > kTailLines) lines.pop_front();
  }
  if (lines.empty()) return "    (it is empty)";
  return "    " + fmt::format("{}", fmt::join(lines, "\n    "));
}

// What the daemon says of its start: "s" when it serves; "r", what is wrong, a line feed and what
// to write instead when it refuses its options; nothing when it ended. Empty after the time limit
// too.
std::string first_words(int fd, bool* in_time) {
  std::string words;
  std::array<char, 4096> bytes{};
  pollfd poll_fd{.fd = fd, .events = POLLIN, .revents = 0};
  for (;;) {
    int ready = 0;
    do {
      ready = ::poll(&poll_fd, 1, kStartTimeoutMs);
    } while (ready < 0 && errno == EINTR);
    *in_time = ready > 0;
    const ssize_t got = ready > 0 ? ::read(fd, bytes.data(), bytes.size()) : 0;
    if (got <= 0) return words;
    words.append(bytes.data(), static_cast<size_t>(got));
    if (words == "s") return words;
  }
}

void wait_until_ready(int fd, const RunDir& dir, std::streamoff log_begin) {
  bool in_time = false;
  const std::string words = first_words(fd, &in_time);
  if (words == "s") return;
  if (words.starts_with('r')) {
    const size_t end = words.find('\n');
    const std::string instead = end == std::string::npos ? "" : words.substr(end + 1);
    throw CommandError(words.substr(1, end == std::string::npos ? end : end - 1),
                       instead.empty() ? "verbena up --help" : instead);
  }
  const std::string_view reason = in_time ? "the daemon ended while it was starting"
                                          : "the daemon did not serve within 20 seconds";
  throw CommandError(
      fmt::format("{}; the end of {}:\n{}", reason, dir.log().string(), log_tail(dir, log_begin)),
      "verbena doctor");
}

void spawn(const RunDir& dir, const Layout& layout, const DaemonOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw CommandError(std::strerror(errno), "ulimit -n");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const UniqueFd log = open_log(dir);  // appended to, by us and by the daemon's logger
  const std::streamoff log_begin = ::lseek(log.value(), 0, SEEK_END);
  std::vector<std::string> words = daemon_arguments(dir, layout, options);
  std::vector<std::string> settings = daemon_environment();
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(settings);
  const pid_t child = ::fork();
  if (child < 0) throw CommandError(fmt::format("fork: {}", std::strerror(errno)), "ulimit -u");
  if (child == 0) {
    become_daemon(write_end.value(), log.value(), arguments.data(), environment.data());
  }
  write_end.reset();
  ::waitpid(child, nullptr, 0);
  wait_until_ready(read_end.value(), dir, log_begin);
}

// The daemon that is up, if one is. One that was killed a moment ago still accepts connections,
// until the kernel has closed its descriptors; it never answers.
std::optional<AdminClient> find_serving(const RunDir& dir) {
  std::optional<AdminClient> daemon = AdminClient::connect(dir);
  if (!daemon) return daemon;
  try {
    static_cast<void>(daemon->ask("status"));
    return daemon;
  } catch (const CommandError&) {
    const UniqueFd pidfd = open_pidfd(daemon->daemon_pid());
    const bool gone = pidfd.valid() ? ends_within(pidfd, kDyingMs) : errno == ESRCH;
    if (!gone) throw;
  }
  return AdminClient::connect(dir);
}

}  // namespace

Started start_daemon(const RunDir& dir, const Layout& layout, const DaemonOptions& options) {
  check_for_daemon(layout);
  create_run_dir(dir);
  const UniqueFd lock = lock_directory(dir);
  if (const std::optional<AdminClient> up = find_serving(dir)) {
    if (!options.any()) return Started::kWasUp;
    throw CommandError(
        fmt::format("a daemon is up already (process {}), and may be set up differently",
                    up->daemon_pid()),
        fmt::format("verbena down{}, then this command again", dir.name_option()));
  }
  spawn(dir, layout, options);
  return Started::kNow;
}

}  // namespace verbena::tools
