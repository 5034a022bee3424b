// The command `verbena`. Each subcommand has a file of its own; this one parses the command line
// and turns errors into two lines on stderr and an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/error.h"

namespace verbena::tools {

namespace {

// Cuts the program and its arguments off `arguments`, so that none of them is taken for an option
// of ours: what follows "--", or begins with the first word after `run` that is no option.
std::vector<std::string> cut_program(std::vector<std::string>* arguments) {
  constexpr std::array<std::string_view, 2> kWithValue = {"--name", "--device"};
  bool in_run = false;
  size_t i = 0;
  size_t skip = 0;
  for (; i < arguments->size(); ++i) {
    const std::string& word = (*arguments)[i];
    if (std::find(kWithValue.begin(), kWithValue.end(), word) != kWithValue.end()) {
      ++i;
    } else if (word == "--") {
      skip = 1;
      break;
    } else if (!word.starts_with('-')) {
      if (in_run) break;
      if (word != "run") return {};
      in_run = true;
    }
  }
  if (!in_run || i >= arguments->size()) return {};
  const auto cut = arguments->begin() + static_cast<std::ptrdiff_t>(i);
  std::vector<std::string> program(cut + static_cast<std::ptrdiff_t>(skip), arguments->end());
  arguments->erase(cut, arguments->end());
  return program;
}

int complain(const std::string& what, const std::string& help, int status) {
  std::fflush(stdout);
  fmt::print(stderr, "verbena: {}\n", what);
  if (!help.empty()) fmt::print(stderr, "  try: {}\n", help);
  return status;
}

// A full disk, say.
int complain_of_output(int error) {
  return complain(fmt::format("the output cannot be written: {}", std::strerror(error)), "", 1);
}

}  // namespace

}  // namespace verbena::tools

int main(int argc, char** argv) {
  using verbena::tools::complain;
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    verbena::tools::Context context;
    context.program = verbena::tools::cut_program(&arguments);
    const int status = verbena::tools::run_command_line(std::move(arguments), context);
    // What was flushed before has left its error in the stream.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    return verbena::tools::complain_of_output(errno);
  } catch (const verbena::tools::CommandError& error) {
    return complain(error.what(), error.help(), error.status());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return verbena::tools::complain_of_output(error.code().value());
    return complain(error.what(), "verbena doctor", 1);
  } catch (const std::exception& error) {
    return complain(error.what(), "verbena doctor", 1);
  }
}
