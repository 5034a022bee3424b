// The commands that libibverbs itself writes to a device's command fd.
//
// All verbs but one go to the provider as function calls. The one is IB_USER_VERBS_CMD_CREATE_COMP_
// CHANNEL, whose answer is a file descriptor placed into the response; the provider's callback
// makes it. Every ioctl answers ENOTTY, as the kernel does for a device without the ioctl
// interface: so libibverbs (36 to 56) writes its commands and reads GIDs from sysfs.
// Layouts: Linux UAPI, <rdma/ib_user_verbs.h>.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "provider/preload/fd_table.h"

namespace verbena::preload {

// Answers write(fd, data, size) on a command fd with tag `tag`: `size`, or -1 and errno.
ssize_t write_command(Tag tag, const void* data, size_t size);

}  // namespace verbena::preload
