// The command `verbena`. Each subcommand has a file of its own; this one parses the command line
// and turns errors into two lines on stderr and an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "tools/commands.h"
#include "tools/error.h"

namespace verbena::tools {

namespace {

constexpr int kUsage = 2;

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

// How many letters to insert, delete or replace (Levenshtein), for words of a few letters.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// A first word that is no subcommand gets an answer that knows the subcommands.
void check_first_word(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--name") {
      ++i;
      continue;
    }
    if (word.starts_with('-')) continue;
    std::vector<std::string> names = subcommand_names(app);
    if (std::find(names.begin(), names.end(), word) != names.end()) return;
    const auto nearest = std::min_element(
        names.begin(), names.end(),
        [&](const auto& a, const auto& b) { return distance(word, a) < distance(word, b); });
    constexpr size_t kMaxDistance = 2;
    throw CommandError(
        fmt::format("there is no subcommand '{}'", word),
        distance(word, *nearest) <= kMaxDistance
            ? fmt::format("verbena {}", *nearest)
            : fmt::format("use one of {}; verbena --help explains them", fmt::join(names, ", ")),
        kUsage);
  }
}

void declare(CLI::App& app, Context& context) {
  app.name("verbena");
  app.set_version_flag("--version", std::string("verbena ") + VERBENA_VERSION);
  app.add_option("--name", context.name,
                 "Which daemon, when several are up (the one called default)")
      ->type_name("NAME");
  app.add_flag("--json", context.json, "Print JSON where a table would be printed");
  app.require_subcommand(1);
  app.fallthrough();
  add_up(app, context);
  add_down(app, context);
  add_run(app, context);
  add_env(app, context);
  add_status(app, context);
  add_stat(app, context);
  add_capture(app, context);
  add_doctor(app, context);
  app.footer(
      "Begin with:\n"
      "  verbena up\n"
      "  verbena run -- ibv_devices\n"
      "`verbena SUBCOMMAND --help` tells more about each.");
}

int complain(const std::string& what, const std::string& help, int status) {
  std::fflush(stdout);
  fmt::print(stderr, "verbena: {}\n", what);
  if (!help.empty()) fmt::print(stderr, "  try: {}\n", help);
  return status;
}

int run_command_line(std::vector<std::string> arguments) {
  Context context;
  context.program = cut_program(&arguments);
  CLI::App app(
      "Verbena: an RDMA network adapter in software. Programs that use verbs run on it "
      "unchanged, with no RDMA hardware, kernel module or root.");
  declare(app, context);
  check_first_word(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), "verbena --help", kUsage);
  }
  return context.status;
}

}  // namespace

}  // namespace verbena::tools

int main(int argc, char** argv) {
  using verbena::tools::complain;
  try {
    return verbena::tools::run_command_line({argv + 1, argv + argc});
  } catch (const verbena::tools::CommandError& error) {
    return complain(error.what(), error.help(), error.status());
  } catch (const std::exception& error) {
    return complain(error.what(), "verbena doctor", 1);
  }
}
