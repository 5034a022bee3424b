// What the preload library offers to the provider inside one process (C linkage, found with
// dlsym(RTLD_DEFAULT, ...), since the two are loaded independently of each other).
//
// libibverbs creates completion channels by a command on the context's command fd and has no
// provider operation for it. The command fd of a Verbena device is /dev/null, opened by the
// preload library in place of /dev/infiniband/uverbsN; the provider registers that fd here, and
// the preload library answers the commands written to it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Returns the new channel's file descriptor (SOCK_SEQPACKET, one 8-byte event per message), or a
// negative errno. Called without any lock of the preload library held.
typedef int (*verbena_create_channel_fn)(void* context);

// Declares that commands on `cmd_fd` are for a Verbena context. `context` is handed back to the
// callback. Returns 0 or a negative errno (-EMFILE: the fd's number is 65536 or more; -ENOSPC: 1023
// contexts are registered). Duplicates made from now on (dup, fork) count as the same fd.
int verbena_preload_register(int cmd_fd, verbena_create_channel_fn create_channel, void* context);

// Ends the registration, for duplicates too, before the context is freed and before `cmd_fd` is
// closed. Unknown fds are ignored.
void verbena_preload_unregister(int cmd_fd);

#ifdef __cplusplus
}
#endif
