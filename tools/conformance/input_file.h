// Files that the user names.
#pragma once

#include <filesystem>
#include <string>

namespace verbena::conformance {

// Throws tools::CommandError with `help` unless `file` is a regular file: a FIFO or a device would
// be waited for, or read without end.
void need_regular_file(const std::filesystem::path& file, const std::string& help);

}  // namespace verbena::conformance
