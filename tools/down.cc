// verbena down: ends the daemon and waits until it is gone.
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/error.h"
#include "tools/pidfd.h"

namespace verbena::tools {

namespace {

constexpr int kPoliteMs = 5'000;
constexpr int kFirmMs = 2'000;

void send_signal(const UniqueFd& pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd.value(), signal, nullptr, 0U);
}

// Asks, then insists. Says in one word how it ended.
std::string_view end_daemon(const AdminClient& daemon, const UniqueFd& pidfd) {
  try {
    static_cast<void>(daemon.ask("shutdown"));
  } catch (const CommandError&) {
    // It may close the connection before it answers, or be stuck: the wait below decides.
  }
  if (ends_within(pidfd, kPoliteMs)) return "down";
  send_signal(pidfd, SIGTERM);
  if (ends_within(pidfd, kFirmMs)) return "terminated";
  send_signal(pidfd, SIGKILL);
  if (ends_within(pidfd, kFirmMs)) return "killed";
  throw CommandError(fmt::format("process {} does not end", daemon.daemon_pid()),
                     fmt::format("kill -9 {}", daemon.daemon_pid()));
}

}  // namespace

void down(const Context& context) {
  const RunDir dir = context.run_dir();
  const std::optional<AdminClient> daemon = AdminClient::connect(dir);
  if (!daemon) {
    fmt::print("no daemon is up in {}\n", dir.path.string());
    return;
  }
  const pid_t pid = daemon->daemon_pid();
  const UniqueFd pidfd = open_pidfd(pid);
  if (!pidfd.valid()) {
    if (errno == ESRCH) return;
    throw CommandError(fmt::format("cannot watch process {}: {}", pid, std::strerror(errno)),
                       fmt::format("kill {}", pid));
  }
  const std::string_view how = end_daemon(*daemon, pidfd);
  fmt::print("verbenad is {} (process {})\n", how, pid);
}

}  // namespace verbena::tools
