#include "dpdk/message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace verbena {
namespace {

// The most that the kernel passes in one message (SCM_MAX_FD). There is room for all: what has none
// the kernel closes within recvmsg(), however long that takes.
constexpr size_t kMostPassed = 253;

// False: there were more than a message may have.
bool take_fds(const msghdr& header, ReceivedMessage& message) {
  bool all = true;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      ForeignFd owned(fd);
      if (message.fd_count < ReceivedMessage::kMaxFds) {
        message.fds[message.fd_count++] = std::move(owned);
      } else {
        all = false;
      }
    }
  }
  return all;
}

}  // namespace

ReceiveResult receive_message(int socket, ReceivedMessage& message) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> control;
  iovec iov{message.bytes.data(), message.bytes.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  for (auto& fd : message.fds) fd.reset();
  message.fd_count = 0;
  const ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    const bool later = errno == EAGAIN || errno == EINTR;
    return later ? ReceiveResult::kNothing : ReceiveResult::kClosed;
  }
  // MSG_CTRUNC: the kernel had no numbers left for some.
  if (!take_fds(header, message) || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    for (auto& fd : message.fds) fd.reset();
    return ReceiveResult::kBroken;
  }
  if (got == 0) return ReceiveResult::kClosed;
  message.size = static_cast<uint32_t>(got);
  return ReceiveResult::kMessage;
}

bool send_message(int socket, std::span<const uint8_t> bytes, std::span<const int> fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(ReceivedMessage::kMaxFds * sizeof(int))> control{};
  iovec iov{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

bool make_socket_pair(ForeignFd& ours, UniqueFd& theirs) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  ours.reset(pair[0]);
  theirs.reset(pair[1]);
  return true;
}

uint64_t socket_cookie(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace verbena
