#include "provider/preload/command.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdint.h>
#include <string.h>

namespace verbena::preload {
namespace {

struct CreateCompChannelCommand {
  ib_uverbs_cmd_hdr header;
  ib_uverbs_create_comp_channel body;
};
static_assert(sizeof(CreateCompChannelCommand) == 16);

constexpr size_t kWordSize = 4;  // unit of in_words and out_words of these commands

ssize_t fail(int error) {
  errno = error;
  return -1;
}

// Everything is checked before the callback makes an fd that nobody would own otherwise.
ssize_t create_comp_channel(Tag tag, const CreateCompChannelCommand& command) {
  if (command.header.out_words * kWordSize < sizeof(ib_uverbs_create_comp_channel_resp)) {
    return fail(ENOSPC);
  }
  auto* response = reinterpret_cast<void*>(static_cast<uintptr_t>(command.body.response));
  if (response == nullptr) return fail(EFAULT);
  Context context;
  if (!find_context(tag, context)) return fail(EINVAL);  // as a device without GET_CONTEXT

  const int fd = context.create_channel(context.context);
  if (fd < 0) return fail(-fd);
  const ib_uverbs_create_comp_channel_resp answer{.fd = static_cast<uint32_t>(fd)};
  memcpy(response, &answer, sizeof(answer));
  return sizeof(command);
}

}  // namespace

ssize_t write_command(Tag tag, const void* data, size_t size) {
  ib_uverbs_cmd_hdr header;
  if (size < sizeof(header)) return fail(EINVAL);
  if (data == nullptr) return fail(EFAULT);
  memcpy(&header, data, sizeof(header));
  if (header.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) return fail(EOPNOTSUPP);

  CreateCompChannelCommand command;
  if (size != sizeof(command) || header.in_words * kWordSize != size) return fail(EINVAL);
  memcpy(&command, data, sizeof(command));
  return create_comp_channel(tag, command);
}

}  // namespace verbena::preload
