// Reads a case file (TOML, docs/conformance.md) and checks all that can be checked without the
// capture.
#pragma once

#include <filesystem>
#include <string_view>

#include "tools/conformance/case.h"

namespace verbena::conformance {

// Throws tools::CommandError, which names file, line and key, and says what to write.
Case read_case(const std::filesystem::path& file);
// The same from text. `file` is for messages, and the capture's place is relative to its folder.
Case parse_case(std::string_view text, const std::filesystem::path& file);

}  // namespace verbena::conformance
