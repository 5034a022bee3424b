// Entries that open something by its path.

#include <fcntl.h>
#include <stdarg.h>

#include "provider/preload/fd_table.h"
#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

using verbena::preload::enter_fd;
using verbena::preload::kDeviceTag;
using verbena::preload::kForeignTag;
using verbena::preload::Redirected;
using verbena::preload::with_path;
using verbena::preload::with_target;

namespace {

bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

// A foreign fd is entered too, which for a number without an entry is one load: an entry left under
// that number by an fclose goes away.
int enter_opened(int fd, const Redirected& target) {
  return enter_fd(fd, target.is_device ? kDeviceTag : kForeignTag);
}

}  // namespace

VERBENA_INTERPOSE(int, open, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return with_target(path, [=](const Redirected& target) {
    return enter_opened(VERBENA_NEXT(open)(target.path, flags, mode), target);
  });
}
VERBENA_INTERPOSE_64(int, open64, open, const char*, int, ...);

VERBENA_INTERPOSE(int, openat, int dir_fd, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return with_target(path, [=](const Redirected& target) {
    return enter_opened(VERBENA_NEXT(openat)(dir_fd, target.path, flags, mode), target);
  });
}
VERBENA_INTERPOSE_64(int, openat64, openat, int, const char*, int, ...);

// The forms that programs built with _FORTIFY_SOURCE call.
VERBENA_INTERPOSE(int, __open_2, const char* path, int flags) {
  return with_target(path, [=](const Redirected& target) {
    return enter_opened(VERBENA_NEXT(__open_2)(target.path, flags), target);
  });
}
VERBENA_INTERPOSE_64(int, __open64_2, __open_2, const char*, int);

VERBENA_INTERPOSE(int, __openat_2, int dir_fd, const char* path, int flags) {
  return with_target(path, [=](const Redirected& target) {
    return enter_opened(VERBENA_NEXT(__openat_2)(dir_fd, target.path, flags), target);
  });
}
VERBENA_INTERPOSE_64(int, __openat64_2, __openat_2, int, const char*, int);

VERBENA_INTERPOSE(int, creat, const char* path, mode_t mode) {
  return with_target(path, [=](const Redirected& target) {
    return enter_opened(VERBENA_NEXT(creat)(target.path, mode), target);
  });
}
VERBENA_INTERPOSE_64(int, creat64, creat, const char*, mode_t);

VERBENA_INTERPOSE(FILE*, fopen, const char* path, const char* mode) {
  return with_path(path, [=](const char* target) { return VERBENA_NEXT(fopen)(target, mode); });
}
VERBENA_INTERPOSE_64(FILE*, fopen64, fopen, const char*, const char*);

VERBENA_INTERPOSE(FILE*, freopen, const char* path, const char* mode, FILE* stream) {
  return with_path(path,
                   [=](const char* target) { return VERBENA_NEXT(freopen)(target, mode, stream); });
}
VERBENA_INTERPOSE_64(FILE*, freopen64, freopen, const char*, const char*, FILE*);

VERBENA_INTERPOSE(DIR*, opendir, const char* path) {
  return with_path(path, [](const char* target) { return VERBENA_NEXT(opendir)(target); });
}

VERBENA_INTERPOSE(int, chdir, const char* path) {
  return with_path(path, [](const char* target) { return VERBENA_NEXT(chdir)(target); });
}

VERBENA_INTERPOSE(int, inotify_add_watch, int fd, const char* path, uint32_t mask) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(inotify_add_watch)(fd, target, mask); });
}
