// InstanceDir: the directory in which one daemon lives, and the lock that keeps a second one out.
//
// The directory belongs to this user, has mode 0700 and is no symbolic link: whoever may write here
// may pose as the daemon. The lock is held on verbenad.pid and ends with the process, however that
// ends, so what a dead daemon left behind is taken over.
#pragma once

#include <string>

#include "dpdk/unique_fd.h"

namespace verbena {

class InstanceDir {
 public:
  // Creates what is missing, checks, locks. Throws std::runtime_error that says what to do.
  explicit InstanceDir(std::string path);
  // Unlinks socket and pid file, if this process wrote them.
  ~InstanceDir();
  InstanceDir(const InstanceDir&) = delete;
  InstanceDir& operator=(const InstanceDir&) = delete;

  const std::string& path() const { return path_; }

  // After daemonizing: the number of the process that serves.
  void write_pid();

  // Replaces a stale control.sock. Non-blocking, SEQPACKET. Throws std::runtime_error.
  UniqueFd listen();

  // Takes the name away, so that nobody new finds a daemon that is ending.
  void unlink_socket();

 private:
  void lock();

  const std::string path_;
  UniqueFd pid_file_;
  int owner_pid_ = 0;  // of the process that cleans up
};

}  // namespace verbena
