#include "provider/control_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena::provider {

namespace {

// A thread cancelled between request and reply would leave the mutex held and the reply unread.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

union FdSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * ControlClient::kMaxFds)];
};

// Takes the descriptors out of a received message; those beyond `wanted` are closed. Returns how
// many there were.
int take_fds(msghdr& message, int* fds, int wanted) {
  int count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; ++i, ++count) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      if (count < wanted) {
        fds[count] = fd;
      } else {
        ::close(fd);
      }
    }
  }
  return count;
}

void instance_path(char* path, size_t path_bytes) {
  if (const char* dir = secure_getenv("VERBENA_DIR"); dir != nullptr && *dir != '\0') {
    std::snprintf(path, path_bytes, "%s", dir);
    return;
  }
  const char* runtime = secure_getenv("XDG_RUNTIME_DIR");
  struct stat status;
  if (runtime != nullptr && *runtime == '/' && stat(runtime, &status) == 0 &&
      S_ISDIR(status.st_mode) && status.st_uid == geteuid()) {
    std::snprintf(path, path_bytes, "%s/verbena/default", runtime);
    return;
  }
  std::snprintf(path, path_bytes, "/tmp/verbena-%u/default", static_cast<unsigned>(geteuid()));
}

bool peer_is_us(int fd) {
  ucred peer;
  socklen_t bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

}  // namespace

int open_instance_directory(char* path, size_t path_bytes) {
  instance_path(path, path_bytes);
  const int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    ::close(fd);
    return -EPERM;
  }
  return fd;
}

int ControlClient::open() {
  char path[4096];
  const int dir = open_instance_directory(path, sizeof path);
  if (dir < 0) {
    std::fprintf(stderr, "verbena: cannot use the instance directory %s: %s%s\n", path,
                 strerror(-dir),
                 dir == -EPERM ? " (it must be yours, with mode 0700)"
                               : "; start the daemon with `verbena up`");
    return -dir;
  }
  int error = 0;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    error = errno;
  } else {
    // Through the directory's descriptor: what was checked is what is used, at any path length.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control.sock", dir);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      error = errno;
    } else if (!peer_is_us(fd)) {
      error = EPERM;
    }
  }
  ::close(dir);
  if (error != 0) {
    std::fprintf(stderr, "verbena: cannot reach the daemon at %s/control.sock: %s\n", path,
                 error == EPERM ? "it runs as another user" : strerror(error));
    if (fd >= 0) ::close(fd);
    return error;
  }
  fd_ = fd;
  owner_ = getpid();
  return 0;
}

void ControlClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool ControlClient::ours() const {
  return getpid() == owner_;
}

int ControlClient::call(abi::Op op, const Message& message, const Answer& answer) {
  if (gone() || !ours()) return EIO;
  NoCancellation guard;
  pthread_mutex_lock(&mutex_);
  const int error = exchange(op, message, answer);
  pthread_mutex_unlock(&mutex_);
  return error;
}

int ControlClient::exchange(abi::Op op, const Message& message, const Answer& answer) {
  if (const int error = send_request(op, message); error != 0) return error;
  return receive_reply(op, answer);
}

int ControlClient::lost() {
  gone_.store(true, std::memory_order_release);
  return EIO;
}

int ControlClient::send_request(abi::Op op, const Message& message) {
  abi::Request request{abi::kMagic, abi::kAbiVersion, op,
                       static_cast<uint32_t>(message.body_bytes)};
  iovec parts[2] = {{&request, sizeof request},
                    {const_cast<void*>(message.body), message.body_bytes}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = message.body_bytes != 0 ? 2 : 1;
  FdSpace space{};
  if (message.fd_count > 0) {
    const size_t bytes = sizeof(int) * static_cast<size_t>(message.fd_count);
    packet.msg_control = &space;
    packet.msg_controllen = CMSG_SPACE(bytes);
    space.header.cmsg_level = SOL_SOCKET;
    space.header.cmsg_type = SCM_RIGHTS;
    space.header.cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(&space.header), message.fds, bytes);
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd_, &packet, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return 0;
  // The request did not leave; only a broken connection ends it for good.
  return errno == ETOOMANYREFS || errno == EBADF ? errno : lost();
}

int ControlClient::receive_reply(abi::Op op, const Answer& answer) {
  abi::Reply reply{};
  // One byte more than expected, so that a reply which is too long shows.
  char excess;
  iovec parts[3] = {
      {&reply, sizeof reply}, {answer.body, answer.body_bytes}, {&excess, sizeof excess}};
  FdSpace space{};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 3;
  packet.msg_control = &space;
  packet.msg_controllen = sizeof space;
  ssize_t received;
  do {
    received = recvmsg(fd_, &packet, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received <= 0) return lost();

  int fds[kMaxFds];
  const int fd_count = take_fds(packet, fds, kMaxFds);
  const size_t bytes = static_cast<size_t>(received);
  const bool well_formed = bytes >= sizeof reply && reply.magic == abi::kMagic && reply.op == op &&
                           bytes == sizeof reply + reply.body_bytes;
  int error = EPROTO;
  if (well_formed) {
    if (reply.error != 0) {
      error = static_cast<int>(reply.error);
    } else if (reply.body_bytes == answer.body_bytes && fd_count == answer.fd_count) {
      error = 0;
    } else if ((packet.msg_flags & MSG_CTRUNC) != 0) {
      error = EMFILE;  // the kernel could not install the descriptors here
    }
  }
  for (int i = 0; i < fd_count && i < kMaxFds; ++i) {
    if (error == 0) {
      answer.fds[i] = fds[i];
    } else {
      ::close(fds[i]);
    }
  }
  return error;
}

bool ControlClient::look_for_end() {
  if (gone()) return true;
  char byte;
  const ssize_t got = recv(fd_, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) lost();
  return gone();
}

}  // namespace verbena::provider
