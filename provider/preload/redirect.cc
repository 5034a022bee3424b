#include "provider/preload/redirect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "provider/preload/originals.h"

namespace verbena::preload {
namespace {

constexpr const char kVirtualSys[] = "/sysfs";
constexpr const char kInfinibandDir[] = "/sysfs/class/infiniband";
constexpr const char kInfinibandVerbsDir[] = "/sysfs/class/infiniband_verbs";
constexpr const char kNullDevice[] = "/dev/null";
constexpr const char kBelowDevice[] = "/dev/null/-";    // every call answers ENOTDIR
constexpr const char kBelowNothing[] = "/dev/null-/-";  // every call answers ENOENT

enum class DirState : int { kUnread, kReading, kReady };

// Room for any instance directory whose control socket still fits into a socket address.
constinit char dir_text[512] = {};
constinit size_t dir_length = 0;
constinit std::atomic<DirState> dir_state = DirState::kUnread;

// secure_getenv gives nothing under AT_SECURE: the caller of a setuid program must not choose what
// that program sees in /sys.
[[gnu::noinline, gnu::cold]] void read_instance_dir() {
  DirState expected = DirState::kUnread;
  if (!dir_state.compare_exchange_strong(expected, DirState::kReading)) return;
  const char* dir = secure_getenv("VERBENA_DIR");
  if (dir != nullptr && dir[0] == '/') {
    size_t length = strlen(dir);
    while (length > 0 && dir[length - 1] == '/') --length;
    if (length > 0 && length < sizeof(dir_text)) {
      memcpy(dir_text, dir, length);
      dir_text[length] = 0;
      dir_length = length;
    }
  }
  dir_state.store(DirState::kReady, std::memory_order_release);
}

bool is_active() {
  if (dir_state.load(std::memory_order_acquire) != DirState::kReady) [[unlikely]] {
    read_instance_dir();
    if (dir_state.load(std::memory_order_acquire) != DirState::kReady) return false;
  }
  return dir_length > 0;
}

struct Component {
  const char* begin;
  size_t length;

  bool is(const char* name) const {
    return strlen(name) == length && memcmp(begin, name, length) == 0;
  }
};

// Takes the next component that is not "." off `path`; length 0 at the end.
Component next_component(const char*& path) {
  for (;;) {
    while (*path == '/') ++path;
    const char* begin = path;
    while (*path != '\0' && *path != '/') ++path;
    const Component component{begin, static_cast<size_t>(path - begin)};
    if (!component.is(".")) return component;
  }
}

enum class Place : uint8_t { kRoot, kSys, kClass, kDev, kInside, kElsewhere };

// The walk from the root down to one of the trees, one component a step:
//
//   kRoot --sys--> kSys --class--> kClass --infiniband, infiniband_verbs--> kInside
//     \----dev--> kDev --infiniband--------------------------------------> kInside
//
// ".." goes one step back; every other name leads to kElsewhere, where the walk ends.
class Walk {
 public:
  Place step(Component component, const char* after) {
    const bool up = component.is("..");
    switch (place_) {
      case Place::kRoot:
        if (up) return place_;
        if (component.is("sys")) return place_ = Place::kSys;
        return place_ = component.is("dev") ? Place::kDev : Place::kElsewhere;
      case Place::kSys:
        if (up) return place_ = Place::kRoot;
        return place_ = component.is("class") ? Place::kClass : Place::kElsewhere;
      case Place::kClass:
        if (up) return place_ = Place::kSys;
        if (component.is("infiniband")) return enter(Tree::kInfiniband, after);
        if (component.is("infiniband_verbs")) return enter(Tree::kInfinibandVerbs, after);
        return place_ = Place::kElsewhere;
      case Place::kDev:
        if (up) return place_ = Place::kRoot;
        if (component.is("infiniband")) return enter(Tree::kDevices, after);
        return place_ = Place::kElsewhere;
      case Place::kInside:
        return up ? step_out(component, after) : step_in(component);
      case Place::kElsewhere:
        return place_;
    }
    return place_;
  }

  // After leaving a tree, `match_` says so until another is entered.
  Match match() const { return match_; }

 private:
  Place enter(Tree tree, const char* rest) {
    match_ = Match{.tree = tree, .rest = rest};
    depth_ = 0;
    return place_ = Place::kInside;
  }

  Place step_in(Component component) {
    ++depth_;
    note_name(component);
    return place_;
  }

  Place step_out(Component component, const char* after) {
    if (depth_ == 0) {
      const bool from_dev = match_.tree == Tree::kDevices;
      match_ = Match{.tree = from_dev ? Tree::kOutOfDev : Tree::kOutOfClass, .rest = after};
      return place_ = from_dev ? Place::kDev : Place::kClass;
    }
    --depth_;
    note_name(component);
    return place_;
  }

  // A device node has nothing below it, ".." included.
  void note_name(Component component) {
    if (match_.name != nullptr) {
      match_.below_name = true;
      return;
    }
    match_.name = component.begin;
    match_.name_length = component.length;
  }

  Place place_ = Place::kRoot;
  Match match_;
  size_t depth_ = 0;  // below the tree's own directory
};

// Appends to a PathBuffer; once a part did not fit, nothing more is added.
class Writer {
 public:
  explicit Writer(PathBuffer& buffer) : buffer_(buffer) {}

  Writer& add(const char* text, size_t length) {
    if (overflow_ || length >= sizeof(buffer_.text) - used_) {
      overflow_ = true;
      return *this;
    }
    memcpy(buffer_.text + used_, text, length);
    used_ += length;
    buffer_.text[used_] = '\0';
    return *this;
  }
  Writer& add(const char* text) { return add(text, strlen(text)); }

  bool overflow() const { return overflow_; }

 private:
  PathBuffer& buffer_;
  size_t used_ = 0;
  bool overflow_ = false;
};

bool exists(const char* path) {
  const int saved_errno = errno;
  const bool found = VERBENA_NEXT(access)(path, F_OK) == 0;
  errno = saved_errno;
  return found;
}

bool is_uverbs(const Match& match) {
  constexpr const char kPrefix[] = "uverbs";
  constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;
  return match.name != nullptr && match.name_length > kPrefixLength &&
         memcmp(match.name, kPrefix, kPrefixLength) == 0;
}

// A device is there when its entry in the virtual sysfs is. All other names are looked for among
// those entries too, and so get the kernel's own ENOENT.
Redirected place_device(const char* path, const Match& match, PathBuffer& buffer) {
  Writer writer(buffer);
  writer.add(dir_text, dir_length).add(kInfinibandVerbsDir);
  if (match.name != nullptr) writer.add("/").add(match.name, match.name_length);
  if (writer.overflow()) return {path, false};
  const bool is_device = is_uverbs(match) && exists(buffer.text);
  if (match.below_name) return {is_device ? kBelowDevice : kBelowNothing, false};
  if (is_device) return {kNullDevice, true};
  return {buffer.text, false};
}

}  // namespace

const char* instance_dir() {
  return is_active() ? dir_text : "";
}

Match match_path(const char* path) {
  if (path == nullptr || path[0] != '/' || !is_active()) return {};
  Walk walk;
  for (const char* position = path;;) {
    const Component component = next_component(position);
    if (component.length == 0) return walk.match();
    if (walk.step(component, position) == Place::kElsewhere) return walk.match();
  }
}

Redirected place(const char* path, const Match& match, PathBuffer& buffer) {
  Writer writer(buffer);
  switch (match.tree) {
    case Tree::kInfiniband:
      writer.add(dir_text, dir_length).add(kInfinibandDir);
      break;
    case Tree::kInfinibandVerbs:
      writer.add(dir_text, dir_length).add(kInfinibandVerbsDir);
      break;
    case Tree::kOutOfClass:
      writer.add("/sys/class");
      break;
    case Tree::kOutOfDev:
      writer.add("/dev");
      break;
    case Tree::kDevices:
      return place_device(path, match, buffer);
    case Tree::kNone:
      return {path, false};
  }
  writer.add(match.rest);
  return {writer.overflow() ? path : buffer.text, false};
}

const char* below_virtual_sys(const char* path) {
  constexpr size_t kVirtualSysLength = sizeof(kVirtualSys) - 1;
  if (!is_active() || strncmp(path, dir_text, dir_length) != 0) return nullptr;
  path += dir_length;
  if (strncmp(path, kVirtualSys, kVirtualSysLength) != 0) return nullptr;
  path += kVirtualSysLength;
  return *path == '/' ? path : nullptr;
}

}  // namespace verbena::preload
