#include "dpdk/ring_budget.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace verbena {
namespace {

namespace fs = std::filesystem;

// The smallest limit of a control group and those above it; a file without a number ("max") is
// none.
uint64_t smallest_limit(const fs::path& mount, fs::path group, const char* file) {
  uint64_t smallest = UINT64_MAX;
  for (;;) {
    uint64_t limit = 0;
    if (std::ifstream(mount / group / file) >> limit) smallest = std::min(smallest, limit);
    if (group.empty()) return smallest;
    group = group.parent_path();
  }
}

// cgroups(7): "4:memory:/group" in version 1, "0::/group" in version 2.
uint64_t cgroup_limit() {
  uint64_t smallest = UINT64_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t name = line.find(':') + 1;
    const size_t path = line.find(":/", name);
    if (name == 0 || path == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(name, path - name);
    const fs::path group = line.substr(path + 2);
    if (controllers.empty()) {
      smallest = std::min(smallest, smallest_limit("/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers == "memory") {
      smallest = std::min(smallest,
                          smallest_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return smallest;
}

}  // namespace

uint64_t memory_for_rings() {
  const auto pages = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(pages * page, cgroup_limit()) / 2;
}

}  // namespace verbena
