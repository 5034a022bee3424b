// Entries that list or walk directories.
//
// libc does these walks with calls of its own, which no preload library sees. So glob is given our
// functions to walk with; scandir starts at the right place; ftw and nftw start there too, and the
// paths that they report are turned back into the ones that the program knows. fts_open starts at
// the right place and reports paths below $VERBENA_DIR.

#include <stdlib.h>
#include <string.h>

#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

using verbena::preload::below_virtual_sys;
using verbena::preload::Match;
using verbena::preload::match_path;
using verbena::preload::PathBuffer;
using verbena::preload::place;
using verbena::preload::Tree;
using verbena::preload::with_path;

extern "C" {
DIR* verbena_opendir(const char* path) asm("opendir");
int verbena_stat(const char* path, struct stat* status) asm("stat");
int verbena_lstat(const char* path, struct stat* status) asm("lstat");
}

namespace {

using FtwCallback = int(const char*, const struct stat*, int);
using NftwCallback = int(const char*, const struct stat*, int, FTW*);
using DirentFilter = int(const dirent*);
using DirentOrder = int(const dirent**, const dirent**);
using GlobError = int(const char*, int);
using FtsOrder = int(const FTSENT**, const FTSENT**);

// ftw and nftw have no argument for us in their callback, so the program's own one waits here. A
// callback may walk again: the outer one is put back afterwards.
thread_local FtwCallback* ftw_callback = nullptr;
thread_local NftwCallback* nftw_callback = nullptr;

// "/sys" and the rest of a path below the virtual sysfs; `path` itself when it is not, or when the
// program cannot have that path anyway (too long).
const char* known_name(const char* path, PathBuffer& buffer) {
  constexpr const char kSys[] = "/sys";
  constexpr size_t kSysLength = sizeof(kSys) - 1;
  const char* below = below_virtual_sys(path);
  if (below == nullptr) return path;
  const size_t length = strlen(below);
  if (kSysLength + length >= sizeof(buffer.text)) return path;
  memcpy(buffer.text, kSys, kSysLength);
  memcpy(buffer.text + kSysLength, below, length + 1);
  return buffer.text;
}

int report_ftw(const char* path, const struct stat* status, int type) {
  PathBuffer buffer;
  return ftw_callback(known_name(path, buffer), status, type);
}

int report_nftw(const char* path, const struct stat* status, int type, FTW* position) {
  PathBuffer buffer;
  const char* name = known_name(path, buffer);
  FTW moved = *position;
  moved.base -= static_cast<int>(strlen(path)) - static_cast<int>(strlen(name));
  return nftw_callback(name, status, type, &moved);
}

// Starts `walk` at the place of `path`, with `slot` holding the program's callback meanwhile.
template <typename Callback, typename WalkFunction>
int walk_redirected(const char* path, const Match& match, Callback*& slot, Callback* callback,
                    WalkFunction walk) {
  PathBuffer buffer;
  Callback* const outer = slot;
  slot = callback;
  const int result = walk(place(path, match, buffer).path);
  slot = outer;
  return result;
}

// Whether a pattern can match names of ours: these need not be whole before its first wildcard.
bool pattern_may_match(const char* pattern) {
  if (pattern == nullptr || pattern[0] != '/' || verbena::preload::instance_dir()[0] == '\0') {
    return false;
  }
  constexpr const char kSys[] = "/sys/class/";
  constexpr const char kDev[] = "/dev/inf";
  return strncmp(pattern, kSys, sizeof(kSys) - 1) == 0 ||
         strncmp(pattern, kDev, sizeof(kDev) - 1) == 0;
}

void* glob_opendir(const char* path) {
  return verbena_opendir(path);
}
dirent* glob_readdir(void* dir) {
  return readdir(static_cast<DIR*>(dir));
}
void glob_closedir(void* dir) {
  closedir(static_cast<DIR*>(dir));
}

}  // namespace

VERBENA_INTERPOSE(int, scandir, const char* path, dirent*** list, DirentFilter* filter,
                  DirentOrder* order) {
  return with_path(
      path, [=](const char* target) { return VERBENA_NEXT(scandir)(target, list, filter, order); });
}
VERBENA_INTERPOSE_64(int, scandir64, scandir, const char*, dirent***, DirentFilter*, DirentOrder*);

VERBENA_INTERPOSE(int, scandirat, int dir_fd, const char* path, dirent*** list,
                  DirentFilter* filter, DirentOrder* order) {
  return with_path(path, [=](const char* target) {
    return VERBENA_NEXT(scandirat)(dir_fd, target, list, filter, order);
  });
}
VERBENA_INTERPOSE_64(int, scandirat64, scandirat, int, const char*, dirent***, DirentFilter*,
                     DirentOrder*);

VERBENA_INTERPOSE(int, glob, const char* pattern, int flags, GlobError* on_error, glob_t* result) {
  if (!pattern_may_match(pattern) || (flags & GLOB_ALTDIRFUNC) != 0) {
    return VERBENA_NEXT(glob)(pattern, flags, on_error, result);
  }
  result->gl_opendir = glob_opendir;
  result->gl_readdir = glob_readdir;
  result->gl_closedir = glob_closedir;
  result->gl_stat = verbena_stat;
  result->gl_lstat = verbena_lstat;
  const int status = VERBENA_NEXT(glob)(pattern, flags | GLOB_ALTDIRFUNC, on_error, result);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return status;
}
VERBENA_INTERPOSE_64(int, glob64, glob, const char*, int, GlobError*, glob_t*);

VERBENA_INTERPOSE(int, ftw, const char* path, FtwCallback* callback, int max_fds) {
  const Match match = match_path(path);
  if (match.tree == Tree::kNone) return VERBENA_NEXT(ftw)(path, callback, max_fds);
  return walk_redirected(path, match, ftw_callback, callback, [=](const char* target) {
    return VERBENA_NEXT(ftw)(target, report_ftw, max_fds);
  });
}
VERBENA_INTERPOSE_64(int, ftw64, ftw, const char*, FtwCallback*, int);

VERBENA_INTERPOSE(int, nftw, const char* path, NftwCallback* callback, int max_fds, int flags) {
  const Match match = match_path(path);
  if (match.tree == Tree::kNone) return VERBENA_NEXT(nftw)(path, callback, max_fds, flags);
  return walk_redirected(path, match, nftw_callback, callback, [=](const char* target) {
    return VERBENA_NEXT(nftw)(target, report_nftw, max_fds, flags);
  });
}
VERBENA_INTERPOSE_64(int, nftw64, nftw, const char*, NftwCallback*, int, int);

namespace {

// Puts the places of `paths` into `targets` one by one, each with a buffer of its own on the stack
// of a nested call, and opens the walk when all are there.
constexpr int kMaxFtsPaths = 16;

FTS* open_fts(char* const* paths, int count, char** targets, int options, FtsOrder* order) {
  if (count == kMaxFtsPaths || paths[count] == nullptr) {
    targets[count] = nullptr;
    return VERBENA_NEXT(fts_open)(targets, options, order);
  }
  return with_path(paths[count], [=](const char* target) {
    targets[count] = const_cast<char*>(target);
    return open_fts(paths, count + 1, targets, options, order);
  });
}

// Whether any path is ours and all of them fit.
bool fts_needs_redirect(char* const* paths) {
  bool ours = false;
  int count = 0;
  for (; paths[count] != nullptr; ++count) ours |= match_path(paths[count]).tree != Tree::kNone;
  return ours && count <= kMaxFtsPaths;
}

}  // namespace

VERBENA_INTERPOSE(FTS*, fts_open, char* const* paths, int options, FtsOrder* order) {
  if (!fts_needs_redirect(paths)) return VERBENA_NEXT(fts_open)(paths, options, order);
  char* targets[kMaxFtsPaths + 1];
  return open_fts(paths, 0, targets, options, order);
}
VERBENA_INTERPOSE_64(FTS*, fts64_open, fts_open, char* const*, int, FtsOrder*);
