// The subcommands. Each add_* declares one subcommand with its options on the given application;
// its callback does the work and throws CommandError, or sets Context::status.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/run_dir.h"

namespace verbena::tools {

// What main() knows before a subcommand runs, and what it exits with. Outlives parsing.
struct Context {
  std::string name;                  // --name
  bool json = false;                 // --json
  std::vector<std::string> program;  // the command of `run`, taken out before parsing
  int status = 0;

  [[nodiscard]] RunDir run_dir() const { return find_run_dir(name); }
};

void add_up(CLI::App& app, Context& context);
void add_down(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_env(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_stat(CLI::App& app, Context& context);
void add_capture(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);

}  // namespace verbena::tools
