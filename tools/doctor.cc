// verbena doctor: what this machine lacks, and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/doctor_checks.h"

namespace verbena::tools {

namespace {

const char* word(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarn:
      return "warn";
    case Level::kFail:
      return "fail";
  }
  return "";
}

void print_json(const std::vector<Finding>& findings) {
  nlohmann::json array = nlohmann::json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"check", finding.name},
                     {"level", word(finding.level)},
                     {"text", finding.text},
                     {"help", finding.help}});
  }
  fmt::print("{}\n", nlohmann::json{{"checks", array}}.dump(2));
}

void print_text(const std::vector<Finding>& findings, long failed, long warned) {
  for (const Finding& finding : findings) {
    fmt::print("{:<4}  {}: {}\n", word(finding.level), finding.name, finding.text);
    if (!finding.help.empty()) fmt::print("      do: {}\n", finding.help);
  }
  if (failed > 0) {
    fmt::print("\nVerbena cannot work here before what is marked fail is mended.\n");
  } else if (warned > 0) {
    fmt::print("\nVerbena works here; what is marked warn would make it better.\n");
  } else {
    fmt::print("\nNothing is missing.\n");
  }
}

}  // namespace

void doctor(Context* context) {
  std::vector<Finding> findings;
  check_parts(&findings);
  check_kernel(&findings);
  check_limits(&findings);
  check_daemon(context->run_dir(), &findings);
  check_programs(&findings);
  const auto count = [&findings](Level level) {
    return std::count_if(findings.begin(), findings.end(),
                         [level](const Finding& finding) { return finding.level == level; });
  };
  const long failed = count(Level::kFail);
  if (context->json) {
    print_json(findings);
  } else {
    print_text(findings, failed, count(Level::kWarn));
  }
  context->status = failed > 0 ? 1 : 0;
}

}  // namespace verbena::tools
