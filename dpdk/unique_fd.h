// UniqueFd and ForeignFd: own one file descriptor and close it.
#pragma once

#include <unistd.h>

#include <utility>

#include "dpdk/close_later.h"

namespace verbena {

inline void close_now(int fd) {
  ::close(fd);
}

template <void (*Close)(int)>
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~OwnedFd() { reset(); }

  int value() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) Close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

using UniqueFd = OwnedFd<close_now>;
// What came from a client, and sockets into which a client can send descriptors.
using ForeignFd = OwnedFd<close_later>;

}  // namespace verbena
