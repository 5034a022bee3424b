#include "dpdk/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace verbena {
namespace {

constexpr int kMemoryMb = 64;

// "0,1,5": the CPUs that this process may run on.
std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string list;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
    }
  }
  return list.empty() ? "0" : list;
}

}  // namespace

Eal::Eal(const std::string& dir) {
  // EAL makes a runtime directory even when it has nothing to put there. Below the instance
  // directory it cannot meet another user's.
  setenv("XDG_RUNTIME_DIR", dir.c_str(), 1);
  if (FILE* log = std::fopen((dir + "/eal.log").c_str(), "we"); log != nullptr) {
    rte_openlog_stream(log);
  }
  // Without the map EAL pins its main thread to one CPU, the same for every daemon.
  std::vector<std::string> words = {"verbenad",
                                    "--no-huge",
                                    "--no-shconf",
                                    "--no-pci",
                                    "--no-telemetry",
                                    "-m",
                                    std::to_string(kMemoryMb),
                                    "--lcores",
                                    fmt::format("0@({})", allowed_cpus()),
                                    "--file-prefix",
                                    fmt::format("verbena-{}", getpid())};
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    throw std::runtime_error(
        fmt::format("DPDK does not start: {}; see {}/eal.log", rte_strerror(rte_errno), dir));
  }
}

Eal::~Eal() {
  const std::filesystem::path runtime = rte_eal_get_runtime_dir();
  rte_eal_cleanup();
  rmdir(runtime.c_str());
  rmdir(runtime.parent_path().c_str());  // when no other DPDK program uses it
}

}  // namespace verbena
