// Entries that make, copy, close or use a file descriptor.

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "provider/preload/command.h"
#include "provider/preload/fd_table.h"
#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

using verbena::preload::enter_fd;
using verbena::preload::forget_fd;
using verbena::preload::forget_fds;
using verbena::preload::kForeignTag;
using verbena::preload::Tag;
using verbena::preload::tag_of;

namespace {

constexpr unsigned kCloseRangeCloexec = 1U << 2;  // CLOSE_RANGE_CLOEXEC of <linux/close_range.h>

bool is_active() {
  return verbena::preload::instance_dir()[0] != '\0';
}

// The tag of an fd that is about to get a command; an entry left by an fd that was closed behind
// our back is dropped.
Tag command_tag(int fd) {
  const Tag tag = tag_of(fd);
  if (tag == kForeignTag) [[likely]]
    return kForeignTag;
  if (verbena::preload::is_character_device(fd)) return tag;
  forget_fd(fd);
  return kForeignTag;
}

}  // namespace

// Where the kernel has ib_core, this socket answers libibverbs with the devices of the kernel
// (none) and keeps it from reading sysfs. Without it, libibverbs does as on a kernel without RDMA.
VERBENA_INTERPOSE(int, socket, int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && is_active()) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return VERBENA_NEXT(socket)(domain, type, protocol);
}

VERBENA_INTERPOSE(int, ioctl, int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (static_cast<uint32_t>(request) == RDMA_VERBS_IOCTL && command_tag(fd) != kForeignTag) {
    errno = ENOTTY;
    return -1;
  }
  return VERBENA_NEXT(ioctl)(fd, request, argument);
}

VERBENA_INTERPOSE(ssize_t, write, int fd, const void* data, size_t size) {
  const Tag tag = command_tag(fd);
  if (tag != kForeignTag) [[unlikely]]
    return verbena::preload::write_command(tag, data, size);
  return VERBENA_NEXT(write)(fd, data, size);
}

VERBENA_INTERPOSE(int, dup, int fd) {
  const Tag tag = tag_of(fd);
  return enter_fd(VERBENA_NEXT(dup)(fd), tag);
}

VERBENA_INTERPOSE(int, dup2, int fd, int new_fd) {
  const Tag tag = tag_of(fd);
  return enter_fd(VERBENA_NEXT(dup2)(fd, new_fd), tag);
}

VERBENA_INTERPOSE(int, dup3, int fd, int new_fd, int flags) {
  const Tag tag = tag_of(fd);
  return enter_fd(VERBENA_NEXT(dup3)(fd, new_fd, flags), tag);
}

VERBENA_INTERPOSE(int, fcntl, int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) {
    return VERBENA_NEXT(fcntl)(fd, command, argument);
  }
  const Tag tag = tag_of(fd);
  return enter_fd(VERBENA_NEXT(fcntl)(fd, command, argument), tag);
}
VERBENA_INTERPOSE_64(int, fcntl64, fcntl, int, int, ...);

// The entry goes before the fd does: afterwards another thread may have got the same number.
VERBENA_INTERPOSE(int, close, int fd) {
  forget_fd(fd);
  return VERBENA_NEXT(close)(fd);
}

VERBENA_INTERPOSE(int, close_range, unsigned first, unsigned last, int flags) {
  if ((static_cast<unsigned>(flags) & kCloseRangeCloexec) == 0) forget_fds(first, last);
  return VERBENA_NEXT(close_range)(first, last, flags);
}

VERBENA_INTERPOSE(void, closefrom, int first) {
  forget_fds(first < 0 ? 0U : static_cast<unsigned>(first), ~0U);
  VERBENA_NEXT(closefrom)(first);
}
