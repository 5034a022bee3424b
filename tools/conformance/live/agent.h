// Agent: the connection to verbena-conformance-target, which sets up at the target what a case
// needs. docs/conformance.md has the messages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tools/unique_fd.h"

namespace verbena::conformance::live {

// The target could not do what the case wants.
class AgentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Agent {
 public:
  // Throws tools::CommandError when nobody answers there.
  Agent(const std::string& host, uint16_t port);

  // Throws AgentError with the agent's own words, or when it has gone.
  nlohmann::json ask(const nlohmann::json& request);

 private:
  tools::UniqueFd fd_;
  std::string buffer_;
};

}  // namespace verbena::conformance::live
