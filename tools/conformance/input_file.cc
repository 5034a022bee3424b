#include "tools/conformance/input_file.h"

#include <fmt/format.h>

#include <system_error>

#include "tools/error.h"

namespace verbena::conformance {

void need_regular_file(const std::filesystem::path& file, const std::string& help) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::is_regular_file(status)) return;
  const auto refuse = [&](const std::string& what) {
    throw tools::CommandError(fmt::format("{} {}", file.string(), what), help);
  };
  if (status.type() == std::filesystem::file_type::not_found) refuse("does not exist");
  if (status.type() == std::filesystem::file_type::none) {
    refuse(fmt::format("cannot be read: {}", error.message()));
  }
  refuse(std::filesystem::is_directory(status) ? "is a folder"
                                               : "is no regular file, but a FIFO or a device");
}

}  // namespace verbena::conformance
