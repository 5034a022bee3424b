// Runs cases: one, or all below a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/conformance/result.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

// Throws tools::CommandError when it cannot be read.
trace::Capture read_case_capture(const Case& c);

// Throws tools::CommandError when the case cannot be set up.
CaseResult run_case(const Case& c, const trace::Capture& capture);

// The case files that a list of files and folders names, sorted within each folder. Throws
// tools::CommandError when one does not exist, or a folder has none.
std::vector<std::filesystem::path> find_cases(const std::vector<std::string>& paths);

// What a person wants to read about a failed case.
std::string report(const Case& c, const trace::Capture& capture, const CaseResult& result);

}  // namespace verbena::conformance
