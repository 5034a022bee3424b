// Entries that resolve symbolic links.
//
// What realpath gives for a path of the virtual sysfs is its real place below $VERBENA_DIR: a name
// that every program can open, one that is not redirected included, and from which ".." leads
// through the same tree.

#include <errno.h>
#include <string.h>

#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

using verbena::preload::Match;
using verbena::preload::Redirected;
using verbena::preload::with_path;
using verbena::preload::with_target;

namespace {

constexpr const char kDeviceDir[] = "/dev/infiniband/";
constexpr size_t kDeviceDirLength = sizeof(kDeviceDir) - 1;

// A device stays itself: /dev/null, where it is kept, would no longer be known as a command fd.
// `resolved` has just received that shorter name or is null, as in realpath.
template <typename Resolve>
char* resolve_path(const char* path, char* resolved, Resolve resolve) {
  return with_target(path, [&](const Redirected& target) -> char* {
    if (!target.is_device) return resolve(target.path, resolved);
    const Match match = verbena::preload::match_path(path);
    char name[PATH_MAX];
    if (kDeviceDirLength + match.name_length >= sizeof(name)) {
      errno = ENAMETOOLONG;
      return nullptr;
    }
    memcpy(name, kDeviceDir, kDeviceDirLength);
    memcpy(name + kDeviceDirLength, match.name, match.name_length);
    name[kDeviceDirLength + match.name_length] = '\0';
    return resolved != nullptr ? strcpy(resolved, name) : strdup(name);
  });
}

}  // namespace

VERBENA_INTERPOSE(ssize_t, readlink, const char* path, char* buffer, size_t size) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(readlink)(target, buffer, size); });
}

VERBENA_INTERPOSE(ssize_t, readlinkat, int dir_fd, const char* path, char* buffer, size_t size) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(readlinkat)(dir_fd, target, buffer, size);
  });
}

VERBENA_INTERPOSE(ssize_t, __readlink_chk, const char* path, char* buffer, size_t size,
                  size_t buffer_size) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(__readlink_chk)(target, buffer, size, buffer_size);
  });
}

VERBENA_INTERPOSE(ssize_t, __readlinkat_chk, int dir_fd, const char* path, char* buffer,
                  size_t size, size_t buffer_size) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(__readlinkat_chk)(dir_fd, target, buffer, size, buffer_size);
  });
}

VERBENA_INTERPOSE(char*, realpath, const char* path, char* resolved) {
  return resolve_path(path, resolved, [](const char* target, char* result) {
    return VERBENA_NEXT(realpath)(target, result);
  });
}

VERBENA_INTERPOSE(char*, __realpath_chk, const char* path, char* resolved, size_t size) {
  return resolve_path(path, resolved, [=](const char* target, char* result) {
    return VERBENA_NEXT(__realpath_chk)(target, result, size);
  });
}

VERBENA_INTERPOSE(char*, canonicalize_file_name, const char* path) {
  return resolve_path(path, nullptr, [](const char* target, char*) {
    return VERBENA_NEXT(canonicalize_file_name)(target);
  });
}
