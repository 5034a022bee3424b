// A pidfd stands for one process, even when its number is given to another, and becomes readable
// when the process ends.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tools/unique_fd.h"

namespace verbena::tools {

// Not valid, with errno, when there is no such process or the kernel lacks pidfds.
inline UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

inline bool ends_within(const UniqueFd& pidfd, int timeout_ms) {
  pollfd poll_fd{.fd = pidfd.value(), .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&poll_fd, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace verbena::tools
