// The functions that this library stands in front of, as the next library in the search order
// defines them (the C library, or another preload library or interceptor behind us).
//
// Invariant: every one is looked up when the library is loaded, so that neither a signal handler
// nor a child of a threaded fork ever runs the dynamic linker. A call that comes in earlier (from
// the constructor of another library) looks up its own.
//
// The library is C in style on purpose: it is mapped into every program of a session, those of
// another C library included, so it needs nothing but libc: no C++ runtime, no allocation.
//
// Thread-safety: all functions may be called from any thread and from signal handlers.
#pragma once

#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#define VERBENA_ORIGINALS(X)                                                                      \
  X(open, int(const char*, int, ...))                                                             \
  X(openat, int(int, const char*, int, ...))                                                      \
  X(__open_2, int(const char*, int))                                                              \
  X(__openat_2, int(int, const char*, int))                                                       \
  X(creat, int(const char*, mode_t))                                                              \
  X(fopen, FILE*(const char*, const char*))                                                       \
  X(freopen, FILE*(const char*, const char*, FILE*))                                              \
  X(opendir, DIR*(const char*))                                                                   \
  X(scandir,                                                                                      \
    int(const char*, dirent***, int (*)(const dirent*), int (*)(const dirent**, const dirent**))) \
  X(scandirat, int(int, const char*, dirent***, int (*)(const dirent*),                           \
                   int (*)(const dirent**, const dirent**)))                                      \
  X(stat, int(const char*, struct stat*))                                                         \
  X(lstat, int(const char*, struct stat*))                                                        \
  X(fstatat, int(int, const char*, struct stat*, int))                                            \
  X(__xstat, int(int, const char*, struct stat*))                                                 \
  X(__lxstat, int(int, const char*, struct stat*))                                                \
  X(__fxstatat, int(int, int, const char*, struct stat*, int))                                    \
  X(statx, int(int, const char*, int, unsigned, void*))                                           \
  X(access, int(const char*, int))                                                                \
  X(faccessat, int(int, const char*, int, int))                                                   \
  X(euidaccess, int(const char*, int))                                                            \
  X(eaccess, int(const char*, int))                                                               \
  X(readlink, ssize_t(const char*, char*, size_t))                                                \
  X(readlinkat, ssize_t(int, const char*, char*, size_t))                                         \
  X(__readlink_chk, ssize_t(const char*, char*, size_t, size_t))                                  \
  X(__readlinkat_chk, ssize_t(int, const char*, char*, size_t, size_t))                           \
  X(realpath, char*(const char*, char*))                                                          \
  X(__realpath_chk, char*(const char*, char*, size_t))                                            \
  X(canonicalize_file_name, char*(const char*))                                                   \
  X(chdir, int(const char*))                                                                      \
  X(inotify_add_watch, int(int, const char*, uint32_t))                                           \
  X(getxattr, ssize_t(const char*, const char*, void*, size_t))                                   \
  X(lgetxattr, ssize_t(const char*, const char*, void*, size_t))                                  \
  X(listxattr, ssize_t(const char*, char*, size_t))                                               \
  X(llistxattr, ssize_t(const char*, char*, size_t))                                              \
  X(glob, int(const char*, int, int (*)(const char*, int), glob_t*))                              \
  X(ftw, int(const char*, int (*)(const char*, const struct stat*, int), int))                    \
  X(nftw, int(const char*, int (*)(const char*, const struct stat*, int, FTW*), int, int))        \
  X(fts_open, FTS*(char* const*, int, int (*)(const FTSENT**, const FTSENT**)))                   \
  X(socket, int(int, int, int))                                                                   \
  X(ioctl, int(int, unsigned long, ...))                                                          \
  X(write, ssize_t(int, const void*, size_t))                                                     \
  X(dup, int(int))                                                                                \
  X(dup2, int(int, int))                                                                          \
  X(dup3, int(int, int, int))                                                                     \
  X(fcntl, int(int, int, ...))                                                                    \
  X(close, int(int))                                                                              \
  X(close_range, int(unsigned, unsigned, int))                                                    \
  X(closefrom, void(int))

namespace verbena::preload {

enum OriginalId : unsigned {
#define VERBENA_ORIGINAL_ID(name, signature) kOriginal_##name,
  VERBENA_ORIGINALS(VERBENA_ORIGINAL_ID)
#undef VERBENA_ORIGINAL_ID
      kOriginalCount
};

template <OriginalId>
struct OriginalSignature;
#define VERBENA_ORIGINAL_SIGNATURE(name, signature) \
  template <>                                       \
  struct OriginalSignature<kOriginal_##name> {      \
    using Function = signature;                     \
  };
VERBENA_ORIGINALS(VERBENA_ORIGINAL_SIGNATURE)
#undef VERBENA_ORIGINAL_SIGNATURE

void* find_original(OriginalId id);

// Looks all of them up; missing ones (of another C library) stay null, and are never called, since
// a program that lacks a function has no call of it to come through us.
void find_all_originals();

template <OriginalId id>
typename OriginalSignature<id>::Function* original() {
  return reinterpret_cast<typename OriginalSignature<id>::Function*>(find_original(id));
}

}  // namespace verbena::preload

// The next definition of `name`, to be called.
#define VERBENA_NEXT(name) (::verbena::preload::original<::verbena::preload::kOriginal_##name>())

// Defines the function that programs call in place of libc's `name`. The symbol is given by an
// assembler label, so that libc's own declarations (nonnull, noexcept) put no rules on ours: a null
// path must get through to libc, which answers EFAULT.
#define VERBENA_INTERPOSE(result, name, ...)                                               \
  extern "C" [[gnu::visibility("default")]] result verbena_##name(__VA_ARGS__) asm(#name); \
  result verbena_##name(__VA_ARGS__)

// The "64" name of a function already interposed: the same function where off_t has 64 bits.
#define VERBENA_INTERPOSE_64(result, name64, name, ...)                                 \
  extern "C" [[gnu::visibility("default"), gnu::alias(#name)]] result verbena_##name64( \
      __VA_ARGS__) asm(#name64)

static_assert(sizeof(long) == 8 && sizeof(off_t) == 8, "the preload library is for 64-bit systems");
