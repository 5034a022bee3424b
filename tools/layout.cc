#include "tools/layout.h"

#include <fmt/format.h>
#include <unistd.h>

#include <initializer_list>
#include <string_view>
#include <system_error>

#include "tools/error.h"

namespace verbena::tools {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAbiSuffix = "-rdmav34.so";

fs::path first_existing(std::initializer_list<fs::path> candidates) {
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    fs::path real = fs::canonical(candidate, error);
    if (!error && fs::is_regular_file(real, error)) return real;
  }
  return {};
}

void check_found(const fs::path& path, std::string_view what) {
  if (!path.empty()) return;
  throw CommandError(fmt::format("{} is missing beside this program", what),
                     "ninja -C <the build directory>, or install Verbena again");
}

// The dynamic loader separates LD_PRELOAD at spaces and colons, libibverbs IBV_DRIVERS at colons
// and semicolons; neither knows a way to quote them.
void check_expressible(const fs::path& path) {
  if (path.native().find_first_of(" :;") == std::string::npos) return;
  throw CommandError(
      fmt::format("'{}' holds a space, a colon or a semicolon, which LD_PRELOAD and IBV_DRIVERS "
                  "cannot express",
                  path.string()),
      "build or install Verbena in a directory without these characters");
}

}  // namespace

std::string Layout::driver() const {
  std::string path = provider.string();
  if (path.ends_with(kAbiSuffix)) path.resize(path.size() - kAbiSuffix.size());
  return path;
}

Layout find_layout() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path build = here.parent_path();
  const fs::path libraries = build / VERBENA_LIBDIR;
  const fs::path provider = "libverbena-rdmav34.so";
  const fs::path preload = "libverbena-preload.so";
  Layout layout;
  layout.daemon =
      first_existing({build / "dpdk/verbenad", build / VERBENA_LIBEXECDIR / "verbenad",
                      build / VERBENA_LIBEXECDIR / "verbena/verbenad", here / "verbenad"});
  layout.provider = first_existing({build / "provider" / provider, libraries / "verbena" / provider,
                                    libraries / provider, libraries / "libibverbs" / provider});
  layout.preload = first_existing(
      {build / "provider" / preload, libraries / "verbena" / preload, libraries / preload});
  return layout;
}

void check_for_daemon(const Layout& layout) {
  check_found(layout.daemon, "the daemon (verbenad)");
}

void check_for_programs(const Layout& layout) {
  check_found(layout.provider, "the provider (libverbena-rdmav34.so)");
  check_found(layout.preload, "the preload library (libverbena-preload.so)");
  check_expressible(layout.provider);
  check_expressible(layout.preload);
}

}  // namespace verbena::tools
