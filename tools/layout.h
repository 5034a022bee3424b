// Where the parts of Verbena lie, seen from the running executable: in a build tree
// (BUILD/tools/verbena) or installed (PREFIX/bin/verbena).
#pragma once

#include <filesystem>
#include <string>

namespace verbena::tools {

struct Layout {
  std::filesystem::path daemon;    // verbenad
  std::filesystem::path provider;  // libverbena-rdmav34.so
  std::filesystem::path preload;   // libverbena-preload.so

  // What IBV_DRIVERS takes: the provider's path without the suffix that libibverbs appends.
  [[nodiscard]] std::string driver() const;
};

// A part that is not found has an empty path.
[[nodiscard]] Layout find_layout();

// Throws CommandError that names the missing part, or a path that LD_PRELOAD and IBV_DRIVERS cannot
// express.
void check_for_daemon(const Layout& layout);
void check_for_programs(const Layout& layout);

}  // namespace verbena::tools
