// Creates a completion channel with the system's own libibverbs, on a context whose command fd is
// the preload library's. libibverbs takes of a context what it sends the command with: cmd_fd, and
// from its private part (zeroed: write mode) how to send it.

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "provider/preload/preload_api.h"
#include "tests/preload/probe.h"

using verbena::probe::expect;

namespace {

constexpr size_t kPrivateSize = 65536;  // more than any version's private part

int create_channel(void* context) {
  int* ends = static_cast<int*>(context);
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 ? ends[0] : -errno;
}

int fail_to_create_channel(void*) {
  return -ENFILE;
}

using CreateCompChannel = ibv_comp_channel*(ibv_context*);
using DestroyCompChannel = int(ibv_comp_channel*);

void check_channel(ibv_context* context, CreateCompChannel* create, DestroyCompChannel* destroy,
                   int* ends) {
  ibv_comp_channel* channel = create(context);
  expect(channel != nullptr, "the channel is created");
  if (channel == nullptr) return;
  expect(channel->fd == ends[0], "its fd is the callback's");
  const uint64_t event = 42;
  uint64_t got = 0;
  expect(send(ends[1], &event, sizeof(event), 0) == sizeof(event) &&
             read(channel->fd, &got, sizeof(got)) == sizeof(got) && got == event,
         "it carries an event");
  expect(destroy(channel) == 0, "the channel is destroyed");
  expect(send(ends[1], &event, sizeof(event), MSG_NOSIGNAL) == -1, "and its fd closed");
  close(ends[1]);
}

}  // namespace

int main() {
  auto* register_fd = reinterpret_cast<decltype(&verbena_preload_register)>(
      dlsym(RTLD_DEFAULT, "verbena_preload_register"));
  if (register_fd == nullptr) return 2;

  auto* verbs = static_cast<verbs_context*>(std::calloc(1, sizeof(verbs_context)));
  verbs->sz = sizeof(*verbs);
  verbs->priv = static_cast<verbs_ex_private*>(std::calloc(1, kPrivateSize));
  ibv_context* context = &verbs->context;
  context->abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->cmd_fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
  pthread_mutex_init(&context->mutex, nullptr);

  int ends[2] = {-1, -1};
  expect(register_fd(context->cmd_fd, create_channel, ends) == 0, "register");
  check_channel(context, ibv_create_comp_channel, ibv_destroy_comp_channel, ends);

  // As programs do that have no libibverbs to link with.
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  check_channel(context,
                reinterpret_cast<CreateCompChannel*>(
                    dlvsym(library, "ibv_create_comp_channel", "IBVERBS_1.0")),
                reinterpret_cast<DestroyCompChannel*>(
                    dlvsym(library, "ibv_destroy_comp_channel", "IBVERBS_1.0")),
                ends);

  const int broken_fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
  expect(register_fd(broken_fd, fail_to_create_channel, nullptr) == 0, "register");
  context->cmd_fd = broken_fd;
  errno = 0;
  expect(ibv_create_comp_channel(context) == nullptr && errno == ENFILE,
         "the callback's error reaches the program");
  return verbena::probe::finish();
}
