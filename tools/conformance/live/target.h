// Target: a live device to which cases are played, one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/conformance/case.h"
#include "tools/conformance/live/wire.h"
#include "tools/conformance/result.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance::live {

struct TargetOptions {
  std::string address;    // of the device
  std::string control;    // where its agent runs; empty: at that address
  std::string interface;  // of this machine; empty: the one on the way
  uint16_t port = 18515;  // of the agent
};

class Target {
 public:
  // Throws tools::CommandError: no permission, no way, nobody there.
  explicit Target(const TargetOptions& options);

  // Why this case cannot be played there; nothing when it can.
  [[nodiscard]] std::optional<std::string> unsuitable(const Case& c) const;
  // Throws tools::CommandError when the agent has gone.
  CaseResult run(const Case& c, const trace::Capture& capture);

  // Whether the device has sent anything yet. When it never does, the way to it is not right.
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] const std::string& interface() const { return wire_.interface(); }

 private:
  TargetOptions options_;
  Wire wire_;
  bool answered_ = false;
};

}  // namespace verbena::conformance::live
