// Where other adapters are known to differ from the rules: so that a case of their captures says
// what is right in place of what they sent.
#pragma once

#include "tools/conformance/case.h"
#include "tools/conformance/result.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

// Adds a [[difference]] for each failed row that is one of the known kind; returns how many.
size_t add_known_differences(Case& c, const trace::Capture& capture, const CaseResult& result);

}  // namespace verbena::conformance
