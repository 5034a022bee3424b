// Which paths are Verbena's, and where they are kept.
//
//   /sys/class/infiniband[/...]        -> $VERBENA_DIR/sysfs/class/infiniband[/...]
//   /sys/class/infiniband_verbs[/...]  -> $VERBENA_DIR/sysfs/class/infiniband_verbs[/...]
//   /dev/infiniband                    -> $VERBENA_DIR/sysfs/class/infiniband_verbs
//   /dev/infiniband/uverbsN            -> /dev/null, if the virtual sysfs has uverbsN
//   /sys/class/infiniband/../NAME      -> /sys/class/NAME
//
// Invariant: a path of anyone else costs a compare of its first components and nothing more: no
// system call, no copy, no change of errno. Without VERBENA_DIR no path is ours.
//
// Names are followed as text only down to these directories ("//", "/./", "/../"); what is below
// goes to the kernel as it was given, so that ".." after a symbolic link means what it should.
//
// Thread-safety: all functions may be called from any thread and from signal handlers.
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

namespace verbena::preload {

// kOutOfClass, kOutOfDev: not in a tree of ours, but through one ("/sys/class/infiniband/../net"),
// which the kernel cannot follow.
enum class Tree : uint8_t {
  kNone,
  kInfiniband,
  kInfinibandVerbs,
  kDevices,
  kOutOfClass,
  kOutOfDev,
};

struct Match {
  Tree tree = Tree::kNone;
  const char* rest = nullptr;  // all but kDevices: what follows the directory's name
  const char* name = nullptr;  // kDevices: the entry's name, null for the directory itself
  size_t name_length = 0;
  bool below_name = false;  // kDevices: the path goes on below the entry
};

struct PathBuffer {
  char text[PATH_MAX];
};

struct Redirected {
  const char* path;
  bool is_device;  // the path stands for a character device of ours
};

// $VERBENA_DIR without trailing slashes, read once; empty when the library is to do nothing: unset,
// not absolute, too long, or a program that runs with more rights than its caller (AT_SECURE).
const char* instance_dir();

// No match for null and relative paths.
Match match_path(const char* path);

// Where `match` is kept; `path` itself when that name would be too long.
Redirected place(const char* path, const Match& match, PathBuffer& buffer);

// The opposite way, for paths below $VERBENA_DIR/sysfs that a program is to see under /sys. Returns
// the pointer inside `path` at which the path below /sys starts ("/class/..."), or null.
const char* below_virtual_sys(const char* path);

template <typename Call>
[[gnu::noinline]] auto call_redirected(const char* path, const Match& match, Call call) {
  PathBuffer buffer;
  return call(place(path, match, buffer));
}

// Calls `call` with the path to use. The 4 KiB buffer is on the stack only when the path is ours:
// a signal handler on a small stack may open files too.
template <typename Call>
auto with_target(const char* path, Call call) {
  const Match match = match_path(path);
  if (match.tree == Tree::kNone) [[likely]]
    return call(Redirected{path, false});
  return call_redirected(path, match, call);
}

template <typename Call>
auto with_path(const char* path, Call call) {
  return with_target(path, [&](const Redirected& target) { return call(target.path); });
}

}  // namespace verbena::preload
