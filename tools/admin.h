// One question to a running daemon over its control socket: words in, JSON out
// (stack/abi/control.h, kAdmin).
//
// The answer is text from another process: it is limited in size, and everything that shows it
// expects any field to be missing.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tools/run_dir.h"
#include "tools/unique_fd.h"

namespace verbena::tools {

class AdminClient {
 public:
  // Empty when no daemon listens there. Throws CommandError when the directory is not safe, or when
  // the listener is not a process of this user.
  [[nodiscard]] static std::optional<AdminClient> connect(const RunDir& dir);
  // As connect(), but a missing daemon is an error.
  [[nodiscard]] static AdminClient connect_or_fail(const RunDir& dir);

  // Throws CommandError when the daemon refuses the words or does not answer within 10 seconds.
  [[nodiscard]] nlohmann::json ask(std::string_view words) const;
  [[nodiscard]] pid_t daemon_pid() const { return daemon_pid_; }

 private:
  AdminClient(UniqueFd socket, pid_t daemon_pid)
      : socket_(std::move(socket)), daemon_pid_(daemon_pid) {}

  UniqueFd socket_;
  pid_t daemon_pid_;
};

}  // namespace verbena::tools
