// The client side of the control socket: one request, one reply, under one mutex.
//
// The connection belongs to the process that made it: in a forked child every call answers EIO
// without touching the socket, so that the parent's conversation is not disturbed. When the daemon
// is gone every call answers EIO as well, and gone() stays true.
//
// Thread-safety: all of it, except open() and close(). Calls are no cancellation points.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>

#include "stack/abi/control.h"

namespace verbena::provider {

class ControlClient {
 public:
  static constexpr int kMaxFds = 4;

  struct Message {
    const void* body = nullptr;
    size_t body_bytes = 0;
    const int* fds = nullptr;  // stay the caller's
    int fd_count = 0;
  };
  struct Answer {
    void* body = nullptr;  // exactly body_bytes come back, or the call fails with EPROTO
    size_t body_bytes = 0;
    int* fds = nullptr;  // exactly fd_count come back, close-on-exec, the caller's to close
    int fd_count = 0;
  };

  ControlClient() = default;
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Connects to the daemon's socket in the instance directory. 0 or an errno: ENOENT, ECONNREFUSED:
  // no daemon; EPERM: the directory or the daemon is another user's.
  int open();
  void close();

  // 0 or an errno.
  int call(abi::Op op, const Message& message, const Answer& answer);

  // The daemon is gone, as far as we have noticed.
  bool gone() const { return gone_.load(std::memory_order_acquire); }
  // Looks whether the connection still stands (one system call), then answers like gone().
  bool look_for_end();

  // This process made the connection (is not a forked child of the one that did).
  bool ours() const;

 private:
  int exchange(abi::Op op, const Message& message, const Answer& answer);
  int send_request(abi::Op op, const Message& message);
  int receive_reply(abi::Op op, const Answer& answer);
  int lost();

  int fd_ = -1;
  pid_t owner_ = 0;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> gone_{false};
};

// Calls with plain structs for bodies; abi::Empty stands for none.
template <typename Body, typename ReplyBody>
int call(ControlClient& control, abi::Op op, const Body& body, ReplyBody& reply,
         int* fds_out = nullptr, int fd_count = 0) {
  ControlClient::Message message;
  ControlClient::Answer answer;
  if constexpr (!__is_empty(Body)) {
    message.body = &body;
    message.body_bytes = sizeof body;
  }
  if constexpr (!__is_empty(ReplyBody)) {
    answer.body = &reply;
    answer.body_bytes = sizeof reply;
  }
  answer.fds = fds_out;
  answer.fd_count = fd_count;
  return control.call(op, message, answer);
}

// Opens the instance directory ($VERBENA_DIR, or the default one) after checking that it is a real
// directory of ours that nobody else may enter. An O_PATH fd, or a negative errno. `path` receives
// its name for messages.
int open_instance_directory(char* path, size_t path_bytes);

}  // namespace verbena::provider
