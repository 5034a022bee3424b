// `verbena conformance`: cases made of captures, run against the engine.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "tools/commands.h"
#include "tools/conformance/case_reader.h"
#include "tools/conformance/case_writer.h"
#include "tools/conformance/import.h"
#include "tools/conformance/runner.h"
#include "tools/error.h"

namespace verbena::tools {

void run_conformance(Context* context, const ConformanceOptions& options) {
  size_t passed = 0;
  size_t failed = 0;
  for (const auto& file : conformance::find_cases(options.paths)) {
    const conformance::Case c = conformance::read_case(file);
    const trace::Capture capture = conformance::read_case_capture(c);
    const conformance::CaseResult result = conformance::run_case(c, capture);
    if (result.passed()) {
      ++passed;
      if (options.verbose) fmt::print("pass {}\n", file.string());
    } else {
      ++failed;
      fmt::print("{}", conformance::report(c, capture, result));
    }
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  if (failed != 0) context->status = 1;
}

void import_conformance(Context* context, const ImportOptions& options) {
  const std::filesystem::path folder = options.folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const conformance::Imported imported = conformance::import_capture(options.capture, folder);
  size_t failed = 0;
  for (const auto& [c, result] : imported.cases) {
    std::ofstream(c.file) << conformance::case_text(c);
    if (!std::filesystem::exists(c.file)) {
      throw CommandError(fmt::format("{} cannot be written", c.file.string()),
                         "-o FOLDER, one that can be written to");
    }
    fmt::print("{}: {}\n", c.file.string(), c.title);
    for (const conformance::Difference& difference : c.differences) {
      fmt::print("  differs: packet {}: {}: {}\n", conformance::packets_text(difference.packets),
                 difference.rule, difference.why);
    }
    if (result.passed()) continue;
    ++failed;
    fmt::print("{}", conformance::report(c, conformance::read_case_capture(c), result));
  }
  for (const std::string& reason : imported.skipped) fmt::print("skipped: {}\n", reason);
  fmt::print("{} cases, {} skipped, {} failed\n", imported.cases.size(), imported.skipped.size(),
             failed);
  if (failed != 0) context->status = 1;
}

}  // namespace verbena::tools
