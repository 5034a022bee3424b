#include "tools/doctor_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "tools/admin.h"
#include "tools/doctor_traffic.h"
#include "tools/error.h"
#include "tools/layout.h"
#include "tools/pidfd.h"
#include "tools/program_check.h"
#include "tools/unique_fd.h"

namespace verbena::tools {

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMinFiles = 256;        // a client takes about ten descriptors
constexpr rlim_t kQuietMemlock = 32768;  // libibverbs warns at this or less
constexpr uint64_t kMinFreeKib = 512 << 10;

void add(std::vector<Finding>* findings, Level level, std::string name, std::string text,
         std::string help = {}) {
  findings->push_back({level, std::move(name), std::move(text), std::move(help)});
}

void check_part(const fs::path& path, const std::string& name, std::vector<Finding>* findings) {
  if (path.empty()) {
    add(findings, Level::kFail, name, "not found beside this program",
        "ninja -C <the build directory>, or install Verbena again");
  } else {
    add(findings, Level::kOk, name, path.string());
  }
}

// What the dynamic loader says when it preloads the library into a program; empty when all is well.
std::string preload_complaint(const fs::path& preload) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::strerror(errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const std::string setting = "LD_PRELOAD=" + preload.string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(write_end.value(), STDERR_FILENO);
    std::array<const char*, 2> arguments = {"true", nullptr};
    std::array<const char*, 2> environment = {setting.c_str(), nullptr};
    // execve() does not write through these pointers; its type is older than const.
    ::execve("/bin/true", const_cast<char**>(arguments.data()),
             const_cast<char**>(environment.data()));
    ::_exit(127);
  }
  write_end.reset();
  std::string text;
  std::array<char, 512> buffer{};
  ssize_t n = 0;
  while ((n = ::read(read_end.value(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (text.empty() && status != 0) text = "/bin/true fails with it";
  return text.substr(0, text.find('\n'));
}

void check_preload(const fs::path& preload, std::vector<Finding>* findings) {
  check_part(preload, "preload library", findings);
  if (preload.empty()) return;
  if (std::string complaint = preload_complaint(preload); !complaint.empty()) {
    findings->back() = {Level::kFail, "preload library", std::move(complaint),
                        "build Verbena on this machine: ninja -C <the build directory>"};
  }
}

void check_libibverbs(std::vector<Finding>* findings) {
  const std::optional<Libibverbs> library = find_libibverbs();
  if (!library) {
    add(findings, Level::kFail, "libibverbs", "not installed",
        "sudo apt-get install libibverbs1 ibverbs-utils");
  } else if (library->private_abi != kPrivateAbi) {
    add(findings, Level::kFail, "libibverbs",
        fmt::format("{} has the private ABI {}, not {}", library->path, library->private_abi,
                    kPrivateAbi),
        "use rdma-core 36 to 56, as in Debian 12 and 13, or Ubuntu 22.04 and 24.04");
  } else {
    add(findings, Level::kOk, "libibverbs",
        fmt::format("{} {}, private ABI {}", library->path, library->version, kPrivateAbi));
  }
}

// The kernel loads or has loaded RDMA; its devices and ours are then seen together or not at all.
void check_ib_core(std::vector<Finding>* findings) {
  std::error_code error;
  if (!fs::exists("/sys/module/ib_core", error)) {
    add(findings, Level::kOk, "kernel RDMA", "ib_core is not loaded, and is not needed");
    return;
  }
  size_t devices = 0;
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", error)) {
    devices += entry.path().has_filename() ? 1 : 0;
  }
  add(findings, Level::kOk, "kernel RDMA",
      fmt::format(
          "ib_core is loaded, with devices of its own: {}. Programs under `verbena run` see "
          "Verbena's instead",
          devices));
}

void check_memfd(std::vector<Finding>* findings) {
  const UniqueFd fd(::memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool sealed = fd.valid() && ::ftruncate(fd.value(), 4096) == 0 &&
                      ::fcntl(fd.value(), F_ADD_SEALS, F_SEAL_SHRINK) == 0;
  if (sealed) {
    add(findings, Level::kOk, "shared memory", "memfd_create and its seals work");
  } else {
    add(findings, Level::kFail, "shared memory",
        fmt::format("a sealed memfd cannot be made: {}", std::strerror(errno)),
        "allow memfd_create in the sandbox (seccomp profile) that this runs in");
  }
}

// Writes through it, as the daemon does: a sandbox may let it be opened only.
void check_proc_mem(std::vector<Finding>* findings) {
  const UniqueFd fd(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  uint64_t target = 0;
  const uint64_t value = 0x5645524245;
  const bool written =
      fd.valid() && ::pwrite(fd.value(), &value, sizeof(value),
                             static_cast<off_t>(reinterpret_cast<uintptr_t>(&target))) ==
                        static_cast<ssize_t>(sizeof(value));
  // Written behind the compiler's back.
  const volatile uint64_t& seen = target;
  if (written && seen == value) {
    add(findings, Level::kOk, "remote copy", "/proc/self/mem can be written");
  } else {
    add(findings, Level::kFail, "remote copy",
        fmt::format("/proc/self/mem cannot be written: {}", std::strerror(errno)),
        "mount /proc, and allow writing to /proc/self/mem in the sandbox that this runs in");
  }
}

void check_userfaultfd(std::vector<Finding>* findings) {
  const auto open_with = [](unsigned flags) {
    return UniqueFd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | flags)));
  };
  if (open_with(0).valid()) {
    add(findings, Level::kOk, "userfaultfd", "works, for kernel faults too");
  } else if (open_with(UFFD_USER_MODE_ONLY).valid()) {
    add(findings, Level::kOk, "userfaultfd", "works for faults of programs");
  } else {
    add(findings, Level::kWarn, "userfaultfd",
        fmt::format("{}: buffers are copied by the kernel, which is slower", std::strerror(errno)),
        "sudo sysctl vm.unprivileged_userfaultfd=1, or allow userfaultfd in the container");
  }
}

void check_pidfd(std::vector<Finding>* findings) {
  const UniqueFd fd = open_pidfd(::getpid());
  if (fd.valid()) {
    add(findings, Level::kOk, "process watch", "pidfd_open works");
  } else {
    add(findings, Level::kFail, "process watch",
        fmt::format("pidfd_open: {}", std::strerror(errno)), "use a kernel of 5.3 or newer");
  }
}

void check_memory(std::vector<Finding>* findings) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib && std::getline(file, unit)) {
    if (key != "MemAvailable:") continue;
    const bool enough = kib >= kMinFreeKib;
    add(findings, enough ? Level::kOk : Level::kWarn, "memory",
        fmt::format("{} MiB available", kib >> 10),
        enough ? "" : "end other programs: the daemon and its rings take up to 512 MiB");
  }
}

void check_processors(std::vector<Finding>* findings) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  if (count >= 2) {
    add(findings, Level::kOk, "processors", fmt::format("{} may be used", count));
  } else {
    add(findings, Level::kWarn, "processors", "one only: programs and daemon take turns",
        "give this machine or container two or more, for speed");
  }
}

}  // namespace

void check_parts(std::vector<Finding>* findings) {
  const Layout layout = find_layout();
  check_part(layout.daemon, "daemon", findings);
  check_part(layout.provider, "provider", findings);
  check_preload(layout.preload, findings);
  if (!layout.provider.empty() && !layout.preload.empty()) {
    try {
      check_for_programs(layout);
    } catch (const CommandError& error) {
      add(findings, Level::kFail, "place", error.what(), error.help());
    }
  }
  check_libibverbs(findings);
}

void check_kernel(std::vector<Finding>* findings) {
  check_memfd(findings);
  check_proc_mem(findings);
  check_pidfd(findings);
  check_userfaultfd(findings);
  check_ib_core(findings);
}

void check_limits(std::vector<Finding>* findings) {
  check_processors(findings);
  check_memory(findings);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kMinFiles) {
    add(findings, Level::kWarn, "open files", fmt::format("limited to {}", files.rlim_cur),
        "ulimit -n 1024");
  } else {
    add(findings, Level::kOk, "open files", fmt::format("limited to {}", files.rlim_cur));
  }
  rlimit memlock{};
  if (::getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur <= kQuietMemlock &&
      ::geteuid() != 0) {
    add(findings, Level::kWarn, "locked memory",
        fmt::format("limited to {} bytes: libibverbs will print a warning", memlock.rlim_cur),
        "ulimit -l unlimited, or a memlock line in /etc/security/limits.conf");
  } else {
    add(findings, Level::kOk, "locked memory", "the limit is high enough");
  }
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    add(findings, Level::kWarn, "address space",
        fmt::format("limited to {} MiB", space.rlim_cur >> 20), "ulimit -v unlimited");
  }
}

void check_daemon(const RunDir& dir, std::vector<Finding>* findings) {
  struct stat st {};
  try {
    if (::lstat(dir.path.c_str(), &st) == 0) {
      check_run_dir(dir);
    } else if (!dir.base.empty() && ::lstat(dir.base.c_str(), &st) == 0) {
      check_run_dir({.base = {}, .path = dir.base, .name = {}});
    }
    add(findings, Level::kOk, "run directory", dir.path.string());
    const std::optional<AdminClient> daemon = AdminClient::connect(dir);
    if (!daemon) {
      add(findings, Level::kOk, "running",
          fmt::format("no; `verbena up{}` starts the daemon", dir.name_option()));
    } else {
      const nlohmann::json stat = daemon->ask("stat");
      add(findings, Level::kOk, "running", fmt::format("yes, as process {}", daemon->daemon_pid()));
      for (Finding& finding : traffic_findings(stat)) findings->push_back(std::move(finding));
    }
  } catch (const CommandError& error) {
    add(findings, Level::kFail, "run directory", error.what(), error.help());
  }
  std::vector<std::string> others = instance_names(dir);
  std::erase(others, dir.name);
  if (!others.empty()) {
    add(findings, Level::kOk, "other daemons",
        fmt::format("directories of: {}", fmt::join(others, ", ")));
  }
}

void check_programs(std::vector<Finding>* findings) {
  struct Program {
    const char* name;
    const char* use;
    const char* package;
  };
  constexpr std::array<Program, 4> kPrograms = {
      {{"ibv_devinfo", "lists devices", "ibverbs-utils"},
       {"ibv_rc_pingpong", "is the smallest test", "ibverbs-utils"},
       {"ib_write_bw", "measures", "perftest"},
       {"tshark", "reads captures", "tshark"}}};
  for (const Program& program : kPrograms) {
    const FoundProgram found = find_program(program.name);
    if (found.error == 0) {
      add(findings, Level::kOk, program.name, found.path);
    } else {
      add(findings, Level::kWarn, program.name, fmt::format("not installed; it {}", program.use),
          fmt::format("sudo apt-get install {}", program.package));
    }
  }
}

}  // namespace verbena::tools
