// `verbena conformance`: cases made of captures, run against the engine or a live device.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "tools/commands.h"
#include "tools/conformance/case_reader.h"
#include "tools/conformance/case_writer.h"
#include "tools/conformance/import.h"
#include "tools/conformance/live/target.h"
#include "tools/conformance/runner.h"
#include "tools/error.h"

namespace verbena::tools {
namespace {

using conformance::Case;
using conformance::CaseResult;

struct Counts {
  size_t passed = 0;
  size_t failed = 0;
  size_t unsuitable = 0;  // cannot be played to a live device
};

void count(Counts& counts, const Case& c, const trace::Capture& capture, const CaseResult& result,
           bool verbose) {
  if (result.passed()) {
    ++counts.passed;
    if (verbose) fmt::print("pass {}\n", c.file.string());
  } else {
    ++counts.failed;
    fmt::print("{}", conformance::report(c, capture, result));
  }
}

struct ReadCase {
  Case c;
  trace::Capture capture;
};

// A case that cannot be read has failed; the others go on.
std::optional<ReadCase> read(const std::filesystem::path& file, Counts& counts) {
  try {
    Case c = conformance::read_case(file);
    trace::Capture capture = conformance::read_case_capture(c);
    return ReadCase{std::move(c), std::move(capture)};
  } catch (const CommandError& error) {
    ++counts.failed;
    fmt::print("FAIL {}\n", error.what());
    if (!error.help().empty()) fmt::print("  try: {}\n", error.help());
    return std::nullopt;
  }
}

void say_what_was_left_out(const Counts& counts, const conformance::live::Target& target) {
  if (counts.unsuitable != 0) {
    fmt::print("{} cases cannot be played to a live device (-v says why)\n", counts.unsuitable);
  }
  if (counts.failed != 0 && !target.answered()) {
    fmt::print(
        "The target sent no RoCEv2 packet at all on {}. Is its link up, is UDP port 4791 let "
        "through, and is there another interface on the way (--interface)?\n",
        target.interface());
  }
}

}  // namespace

void run_conformance(Context* context, const ConformanceOptions& options) {
  std::unique_ptr<conformance::live::Target> target;
  if (!options.target.empty()) {
    target = std::make_unique<conformance::live::Target>(conformance::live::TargetOptions{
        options.target, options.control, options.interface, options.port});
  }
  Counts counts;
  for (const auto& file : conformance::find_cases(options.paths)) {
    const std::optional<ReadCase> found = read(file, counts);
    if (!found) continue;
    const auto& [c, capture] = *found;
    const auto reason = target ? target->unsuitable(c) : std::nullopt;
    if (reason) {
      ++counts.unsuitable;
      if (options.verbose) fmt::print("not played {}: {}\n", file.string(), *reason);
      continue;
    }
    count(counts, c, capture, target ? target->run(c, capture) : conformance::run_case(c, capture),
          options.verbose);
  }
  if (target) say_what_was_left_out(counts, *target);
  fmt::print("{} passed, {} failed\n", counts.passed, counts.failed);
  if (counts.failed != 0) context->status = 1;
}

void import_conformance(Context* context, const ImportOptions& options) {
  const std::filesystem::path folder = options.folder;
  const conformance::Imported imported = conformance::import_capture(options.capture, folder);
  if (!imported.stopped_by.empty()) {
    fmt::print(stderr, "verbena: {}: {}; imported is what comes before that\n", options.capture,
               imported.stopped_by);
  }
  std::error_code error;
  if (!imported.cases.empty()) std::filesystem::create_directories(folder, error);
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
