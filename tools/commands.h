// The subcommands: one function each, in a file of its own. They throw CommandError, or set
// Context::status. Their options are declared in command_line.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/launch.h"
#include "tools/run_dir.h"

namespace verbena::tools {

// What main() knows before a subcommand runs, and what it exits with.
struct Context {
  std::string name;                  // --name
  bool json = false;                 // --json
  std::vector<std::string> program;  // the command of `run`, taken out before parsing
  int status = 0;

  [[nodiscard]] RunDir run_dir() const { return find_run_dir(name); }
};

struct StatOptions {
  std::string device;
  double watch_s = 0;  // 0: once
  bool all = false;
};

struct ConformanceOptions {
  std::vector<std::string> paths;  // cases, or folders with some
  bool verbose = false;
  std::string target;     // address of a live device; empty: the engine
  std::string control;    // where its agent runs; empty: there
  std::string interface;  // on the way to it; empty: found
  uint16_t port = 18515;  // of the agent
};

struct ExplainOptions {
  std::string capture;
  std::vector<std::string> qpns;
  std::string html;  // a file to write; empty: text on stdout
  uint32_t from = 0;
  uint32_t count = 0;  // 0: all
  bool all = false;
  bool ascii = false;
};

struct ImportOptions {
  std::string capture;
  std::string folder;
};

void up(const Context& context, const DaemonOptions& options);
void down(const Context& context);
void run(const Context& context, const std::string& device);
void env(const Context& context, const std::string& device);
void status(Context* context);
void stat(const Context& context, const StatOptions& options);
void set_fault(const Context& context, const std::vector<std::string>& rule);
void show_faults(const Context& context);
void clear_faults(const Context& context, const std::vector<std::string>& selector);
void start_capture(const Context& context, const std::string& file);
void stop_capture(const Context& context);
void explain(const Context& context, const ExplainOptions& options);
void doctor(Context* context);
void run_conformance(Context* context, const ConformanceOptions& options);
void import_conformance(Context* context, const ImportOptions& options);

}  // namespace verbena::tools
