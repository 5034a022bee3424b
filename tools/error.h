// The one exception of the command: what is wrong, and what to do about it. main() prints both, on
// two lines of stderr, and exits with `status`.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace verbena::tools {

class CommandError : public std::runtime_error {
 public:
  CommandError(const std::string& what, std::string help, int status = 1)
      : std::runtime_error(what), help_(std::move(help)), status_(status) {}

  // A command to run or a thing to change; may be empty.
  [[nodiscard]] const std::string& help() const { return help_; }
  [[nodiscard]] int status() const { return status_; }

 private:
  std::string help_;
  int status_;
};

}  // namespace verbena::tools
