// A UD queue pair in a capture -> a case.
#pragma once

#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/trace/conversation.h"

namespace verbena::conformance {

// One case for each queue pair that sent or got datagrams, whoever they were from. `skipped` gets
// the reasons for those that make none.
std::vector<Case> import_datagrams(const trace::Trace& trace, std::vector<std::string>& skipped);

}  // namespace verbena::conformance
