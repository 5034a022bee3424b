// verbena run: becomes the given program, with Verbena's devices in its sight.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "tools/commands.h"
#include "tools/error.h"
#include "tools/launch.h"
#include "tools/layout.h"
#include "tools/program_check.h"
#include "tools/program_environment.h"

namespace verbena::tools {

namespace {

// As a shell has it.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

void check_program(const FoundProgram& program) {
  if (program.error != 0) {
    const bool missing = program.error == ENOENT || program.error == ENOTDIR;
    std::error_code ignored;
    const bool directory = std::filesystem::is_directory(program.path, ignored);
    throw CommandError(fmt::format("{}: {}", program.path,
                                   missing     ? "command not found"
                                   : directory ? "is a directory"
                                               : "cannot be executed"),
                       missing || directory ? "" : fmt::format("chmod +x {}", program.path),
                       missing ? kNotFound : kNotExecutable);
  }
  switch (check_reach(program.path)) {
    case Reach::kReachable:
      return;
    case Reach::kSetuid:
      throw CommandError(
          fmt::format("{} gains rights when it starts (setuid, setgid or file capabilities), and "
                      "then the dynamic loader ignores LD_PRELOAD: it cannot see Verbena's devices",
                      program.path),
          "run a copy without these rights, or run it as the user that it becomes", kNotExecutable);
    case Reach::kStatic:
      fmt::print(
          stderr,
          "verbena: note: {} is statically linked, so it cannot see Verbena's devices itself; "
          "programs that it starts can\n",
          program.path);
      return;
    case Reach::kOtherWord:
      fmt::print(stderr,
                 "verbena: note: {} is a program for another processor or word size, so it cannot "
                 "see Verbena's devices\n",
                 program.path);
      return;
  }
}

void check_libibverbs() {
  const std::optional<Libibverbs> library = find_libibverbs();
  // Without one the program either brings its own or says itself what it lacks.
  if (!library || library->private_abi == kPrivateAbi || library->private_abi == 0) return;
  fmt::print(
      stderr,
      "verbena: note: {} has the private ABI {}, and Verbena's provider is for {} (rdma-core "
      "36 to 56): it will not be loaded\n",
      library->path, library->private_abi, kPrivateAbi);
}

}  // namespace

void run(const Context& context, const std::string& device) {
  if (context.program.empty()) {
    throw CommandError("which program?", "verbena run -- ibv_devinfo", 2);
  }
  const FoundProgram program = find_program(context.program.front());
  check_program(program);
  check_libibverbs();
  const RunDir dir = context.run_dir();
  const Layout layout = find_layout();
  check_for_programs(layout);
  if (start_daemon(dir, layout, {}) == Started::kNow) {
    fmt::print(stderr, "verbena: started verbenad with two devices; `verbena down{}` ends it\n",
               dir.name_option());
  }
  if (!device.empty()) check_device_name(dir, device);
  for (const auto& [variable, value] : program_environment(dir, layout, device)) {
    ::setenv(variable.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments;
  std::vector<std::string> words = context.program;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.path.c_str(), arguments.data());
  // execvp() hands what the kernel cannot execute to the shell: right for a script without #!, not
  // for a program that is broken or for another processor.
  if (errno == ENOEXEC && !is_elf(program.path)) {
    ::execvp(program.path.c_str(), arguments.data());
  }
  throw CommandError(fmt::format("{}: {}", program.path, std::strerror(errno)), "",
                     errno == ENOENT ? kNotFound : kNotExecutable);
}

}  // namespace verbena::tools
