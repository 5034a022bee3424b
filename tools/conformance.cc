// `verbena conformance`: cases made of captures, run against the engine.
#include <fmt/format.h>

#include "tools/commands.h"
#include "tools/conformance/case_reader.h"
#include "tools/conformance/runner.h"

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

}  // namespace verbena::tools
