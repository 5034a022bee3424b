// Import: makes cases of anybody's capture, one for each role that Verbena can play in it.
//
// What a capture does not say is inferred: QPNs and roles (tools/trace), work requests from request
// packets, receives from the messages that came, regions and what was in them from RDMA, timers
// from what was sent again. Each case is run; where the capture's sender is known to differ from
// the rules, the difference goes into the case.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/conformance/result.h"
#include "tools/trace/conversation.h"

namespace verbena::conformance {

struct Import {
  Case c;
  CaseResult result;
};

struct Imported {
  std::vector<Import> cases;
  std::vector<std::string> skipped;  // "QP 0x11 of 10.0.0.1: atomics ...", with the reason
  std::string stopped_by;            // what is wrong behind the last frame that was read; or empty
};

// Makes the cases and runs them; writes nothing. The files would lie in `folder`. Throws
// tools::CommandError when the capture cannot be read.
Imported import_capture(const std::filesystem::path& path, const std::filesystem::path& folder);
// The same of a capture that was read from `path`.
Imported import_capture(const trace::Capture& capture, const std::filesystem::path& path,
                        const std::filesystem::path& folder);

}  // namespace verbena::conformance
