// One message on a SEQPACKET socket, with the descriptors that came along. Never blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dpdk/unique_fd.h"
#include "stack/abi/control.h"

namespace verbena {

struct ReceivedMessage {
  static constexpr size_t kMaxFds = 4;

  alignas(8) std::array<uint8_t, abi::kMaxMessage> bytes;
  uint32_t size = 0;
  std::array<ForeignFd, kMaxFds> fds;
  uint32_t fd_count = 0;
};

enum class ReceiveResult {
  kMessage,
  kNothing,  // none there now
  kClosed,   // the peer closed, or the socket failed
  kBroken,   // longer than kMaxMessage or with too many descriptors; all of them are closed
};

ReceiveResult receive_message(int socket, ReceivedMessage& message);

// False when the peer cannot take it at once.
bool send_message(int socket, std::span<const uint8_t> bytes, std::span<const int> fds);

// A pair of connected SEQPACKET sockets: ours and the client's.
bool make_socket_pair(ForeignFd& ours, UniqueFd& theirs);

// A number that no other socket of this machine has; 0 if `fd` is no socket.
uint64_t socket_cookie(int fd);

}  // namespace verbena
