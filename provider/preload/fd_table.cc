#include "provider/preload/fd_table.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "provider/preload/originals.h"

namespace verbena::preload {
namespace {

// Tag layout: bits 31..12 generation (odd while in use), bits 11..0 slot; slot 0 is no context.
constexpr unsigned kSlotBits = 12;
constexpr Tag kSlotMask = (1U << kSlotBits) - 1;
constexpr uint32_t kGenerationMask = (1U << (32 - kSlotBits)) - 1;
constexpr unsigned kMaxContexts = 1024;

struct Slot {
  std::atomic<uint32_t> generation;
  std::atomic<verbena_create_channel_fn> create_channel;
  std::atomic<void*> context;
};

constinit std::atomic<Tag> tags[kMaxFds] = {};
constinit std::atomic<unsigned> fds_end = 0;  // one past the highest fd ever entered
constinit Slot slots[kMaxContexts] = {};
constinit std::atomic<pid_t> owner = 0;

// Asked only when an entry is about to change, so a foreign fd never costs a system call.
bool is_owner() {
  return owner.load(std::memory_order_relaxed) == getpid();
}

void store(int fd, Tag tag) {
  if (!is_owner()) return;
  const unsigned end = static_cast<unsigned>(fd) + 1;
  unsigned seen = fds_end.load(std::memory_order_relaxed);
  while (seen < end && !fds_end.compare_exchange_weak(seen, end)) {
  }
  tags[fd].store(tag, std::memory_order_release);
}

}  // namespace

Tag tag_of(int fd) {
  if (fd < 0 || fd >= kMaxFds) return kForeignTag;
  return tags[fd].load(std::memory_order_acquire);
}

int enter_fd(int fd, Tag tag) {
  if (fd < 0) return fd;
  if (fd >= kMaxFds) {
    if (tag == kForeignTag) return fd;
    VERBENA_NEXT(close)(fd);
    errno = EMFILE;
    return -1;
  }
  if (tag != tag_of(fd)) store(fd, tag);
  return fd;
}

void forget_fd(int fd) {
  if (tag_of(fd) != kForeignTag) store(fd, kForeignTag);
}

void forget_fds(unsigned first, unsigned last) {
  const unsigned end = fds_end.load(std::memory_order_relaxed);
  for (unsigned fd = first; fd < end && fd <= last; ++fd) forget_fd(static_cast<int>(fd));
}

bool is_character_device(int fd) {
  const int saved_errno = errno;
  struct stat status;
  const bool is_device = fstat(fd, &status) == 0 && S_ISCHR(status.st_mode);
  errno = saved_errno;
  return is_device;
}

Tag add_context(const Context& context) {
  for (unsigned index = 1; index < kMaxContexts; ++index) {
    Slot& slot = slots[index];
    uint32_t generation = slot.generation.load(std::memory_order_relaxed);
    if (generation % 2 == 1) continue;
    const uint32_t used = (generation + 1) & kGenerationMask;
    if (!slot.generation.compare_exchange_strong(generation, used)) continue;
    slot.create_channel.store(context.create_channel, std::memory_order_relaxed);
    slot.context.store(context.context, std::memory_order_relaxed);
    return used << kSlotBits | index;
  }
  return kForeignTag;
}

void remove_context(Tag tag) {
  const unsigned index = tag & kSlotMask;
  if (index == 0) return;
  uint32_t used = tag >> kSlotBits;
  slots[index].generation.compare_exchange_strong(used, (used + 1) & kGenerationMask);
}

bool find_context(Tag tag, Context& context) {
  const unsigned index = tag & kSlotMask;
  if (index == 0) return false;
  Slot& slot = slots[index];
  context.create_channel = slot.create_channel.load(std::memory_order_relaxed);
  context.context = slot.context.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  return slot.generation.load(std::memory_order_relaxed) == tag >> kSlotBits;
}

void adopt_table() {
  owner.store(getpid(), std::memory_order_relaxed);
}

}  // namespace verbena::preload
