// What can be seen in a program's file about whether the preload library will reach it.
#pragma once

#include <optional>
#include <string>

namespace verbena::tools {

enum class Reach {
  kReachable,
  kSetuid,     // the dynamic loader ignores LD_PRELOAD for programs that gain rights
  kStatic,     // there is no dynamic loader
  kOtherWord,  // 32-bit, or for another processor: the loader cannot load our library
};

// The file that execvp() would run, or the errno that it would end with: ENOENT or EACCES.
struct FoundProgram {
  std::string path;
  int error = 0;
};
[[nodiscard]] FoundProgram find_program(const std::string& command);

// Looks at the program, or at the interpreter of a script.
[[nodiscard]] Reach check_reach(const std::string& path);

[[nodiscard]] bool is_elf(const std::string& path);

// libibverbs as the dynamic loader finds it for this process.
struct Libibverbs {
  std::string path;
  std::string version;  // of the file, such as 1.14.44.0; may be empty
  int private_abi = 0;  // 0: not found out
};
[[nodiscard]] std::optional<Libibverbs> find_libibverbs();

inline constexpr int kPrivateAbi = 34;  // what our provider is written for

}  // namespace verbena::tools
