// Entries that tell something about a path.

#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

using verbena::preload::with_path;

using StatStruct = struct stat;

VERBENA_INTERPOSE(int, stat, const char* path, StatStruct* status) {
  return with_path(path, [=](const char* target) { return VERBENA_NEXT(stat)(target, status); });
}
VERBENA_INTERPOSE_64(int, stat64, stat, const char*, StatStruct*);

VERBENA_INTERPOSE(int, lstat, const char* path, StatStruct* status) {
  return with_path(path, [=](const char* target) { return VERBENA_NEXT(lstat)(target, status); });
}
VERBENA_INTERPOSE_64(int, lstat64, lstat, const char*, StatStruct*);

VERBENA_INTERPOSE(int, fstatat, int dir_fd, const char* path, StatStruct* status, int flags) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(fstatat)(dir_fd, target, status, flags);
  });
}
VERBENA_INTERPOSE_64(int, fstatat64, fstatat, int, const char*, StatStruct*, int);

// The names that programs built against glibc before 2.33 call.
VERBENA_INTERPOSE(int, __xstat, int version, const char* path, StatStruct* status) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(__xstat)(version, target, status); });
}
VERBENA_INTERPOSE_64(int, __xstat64, __xstat, int, const char*, StatStruct*);

VERBENA_INTERPOSE(int, __lxstat, int version, const char* path, StatStruct* status) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(__lxstat)(version, target, status); });
}
VERBENA_INTERPOSE_64(int, __lxstat64, __lxstat, int, const char*, StatStruct*);

VERBENA_INTERPOSE(int, __fxstatat, int version, int dir_fd, const char* path, StatStruct* status,
                  int flags) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(__fxstatat)(version, dir_fd, target, status, flags);
  });
}
VERBENA_INTERPOSE_64(int, __fxstatat64, __fxstatat, int, int, const char*, StatStruct*, int);

VERBENA_INTERPOSE(int, statx, int dir_fd, const char* path, int flags, unsigned mask,
                  void* status) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(statx)(dir_fd, target, flags, mask, status);
  });
}

VERBENA_INTERPOSE(int, access, const char* path, int mode) {
  return with_path(path, [=](const char* target) { return VERBENA_NEXT(access)(target, mode); });
}

VERBENA_INTERPOSE(int, faccessat, int dir_fd, const char* path, int mode, int flags) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(faccessat)(dir_fd, target, mode, flags);
  });
}

VERBENA_INTERPOSE(int, euidaccess, const char* path, int mode) {
  return with_path(path,
                   [=](const char* target) { return VERBENA_NEXT(euidaccess)(target, mode); });
}

VERBENA_INTERPOSE(int, eaccess, const char* path, int mode) {
  return with_path(path, [=](const char* target) { return VERBENA_NEXT(eaccess)(target, mode); });
}

// `ls -l` asks for these, and reports their failure.
VERBENA_INTERPOSE(ssize_t, getxattr, const char* path, const char* name, void* value, size_t size) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(getxattr)(target, name, value, size); });
}

VERBENA_INTERPOSE(ssize_t, lgetxattr, const char* path, const char* name, void* value,
                  size_t size) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(lgetxattr)(target, name, value, size); });
}

VERBENA_INTERPOSE(ssize_t, listxattr, const char* path, char* list, size_t size) {
  return with_path(path,
                   [=](const char* target) { return VERBENA_NEXT(listxattr)(target, list, size); });
}

VERBENA_INTERPOSE(ssize_t, llistxattr, const char* path, char* list, size_t size) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(llistxattr)(target, list, size); });
}
