// Start of the library in a process, and the functions that it offers to the provider.

#include "provider/preload/preload_api.h"

#include <errno.h>

#include "provider/preload/fd_table.h"
#include "provider/preload/originals.h"
#include "provider/preload/redirect.h"

// glibc's pthread_atfork; not every C library has it, and then the table is not followed in
// children of fork until one registers a context (an entry that went stale there is found out when
// it is used).
extern "C" [[gnu::weak]] int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                               void* module);
extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;

namespace verbena::preload {
namespace {

[[gnu::constructor]] void start() {
  find_all_originals();
  instance_dir();
  adopt_table();
  if (__register_atfork != nullptr) {
    __register_atfork(nullptr, nullptr, adopt_table, __dso_handle);
  }
}

}  // namespace
}  // namespace verbena::preload

extern "C" [[gnu::visibility("default")]] int verbena_preload_register(
    int cmd_fd, verbena_create_channel_fn create_channel, void* context) {
  using namespace verbena::preload;
  if (cmd_fd < 0) return -EBADF;
  if (create_channel == nullptr) return -EINVAL;
  if (cmd_fd >= kMaxFds) return -EMFILE;
  adopt_table();  // a child made by a raw clone never ran the fork handler
  const Tag tag = add_context({create_channel, context});
  if (tag == kForeignTag) return -ENOSPC;
  enter_fd(cmd_fd, tag);
  return 0;
}

extern "C" [[gnu::visibility("default")]] void verbena_preload_unregister(int cmd_fd) {
  using namespace verbena::preload;
  const Tag tag = tag_of(cmd_fd);
  if (tag == kForeignTag || tag == kDeviceTag) return;
  remove_context(tag);
  enter_fd(cmd_fd, kDeviceTag);
}
