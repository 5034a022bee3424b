// Which file descriptors of this process are Verbena's command fds, and whose they are.
//
// A command fd is an open /dev/null; nothing in the kernel tells it from any other. So the table
// follows it through open, dup, fcntl, close and fork. An entry is a tag: 0 for a foreign fd,
// kDeviceTag for an open device without a context, else the tag of a registered context.
//
// Invariants:
//   - no locks: close() and write() may come from a signal handler, fork from a threaded process;
//   - a tag carries a generation, so duplicates of a context's fd that outlive the registration
//     never reach the next context;
//   - a child of vfork shares this memory and closes fds of its own: it changes nothing here.
//
// An fd closed behind our back (fclose, a raw system call) leaves its entry; is_character_device
// is therefore asked before a command is answered.
//
// Thread-safety: all functions may be called from any thread and from signal handlers.
#pragma once

#include <stdint.h>

#include "provider/preload/preload_api.h"

namespace verbena::preload {

using Tag = uint32_t;
inline constexpr Tag kForeignTag = 0;
inline constexpr Tag kDeviceTag = 1U << 12;

// Command fds at or above this number are refused with EMFILE, which keeps the table small.
inline constexpr int kMaxFds = 65536;

struct Context {
  verbena_create_channel_fn create_channel;
  void* context;
};

Tag tag_of(int fd);

// Enters `fd`, closing it and failing with EMFILE when it does not fit. Returns the fd or -1.
// `fd` < 0 is passed through.
int enter_fd(int fd, Tag tag);

void forget_fd(int fd);
void forget_fds(unsigned first, unsigned last);

bool is_character_device(int fd);

// Returns the tag, or kForeignTag when there is no room.
Tag add_context(const Context& context);
void remove_context(Tag tag);
bool find_context(Tag tag, Context& context);

// Makes this process, by now a child of fork with its own memory, the owner of the table.
void adopt_table();

}  // namespace verbena::preload
