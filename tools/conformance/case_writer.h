// Writes a case as a file that read_case() reads back to the same.
#pragma once

#include <string>

#include "tools/conformance/case.h"

namespace verbena::conformance {

// "1-5, 7", or "" for none.
std::string packets_text(const std::vector<uint32_t>& packets);

// The text of the file Case::file: the capture is named relative to its folder.
std::string case_text(const Case& c);

}  // namespace verbena::conformance
