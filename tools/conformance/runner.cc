#include "tools/conformance/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "tools/conformance/input_file.h"
#include "tools/conformance/ladder.h"
#include "tools/conformance/player.h"
#include "tools/conformance/script.h"
#include "tools/conformance/stage.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

constexpr size_t kContextRows = 4;

void need_case(const std::filesystem::path& file) {
  need_regular_file(file, "a case file (*.toml), or a folder with some");
  const std::string extension = file.extension().string();
  if (extension != ".pcap" && extension != ".pcapng" && extension != ".cap") return;
  throw tools::CommandError(
      fmt::format("{} is a capture; a case is a TOML file that names one", file.string()),
      fmt::format("verbena conformance import {} -o FOLDER, which makes cases of it",
                  file.string()));
}

}  // namespace

trace::Capture read_case_capture(const Case& c) {
  constexpr const char* kHelp = "capture = \"FILE\", a pcap or pcapng file, relative to the case";
  need_regular_file(c.capture, fmt::format("in {}: {}", c.file.string(), kHelp));
  trace::Capture capture = trace::read_capture(c.capture);
  if (capture.error.empty() && !capture.frames.empty()) return capture;
  throw tools::CommandError(
      fmt::format("{}: the capture cannot be read: {}", c.file.string(),
                  capture.error.empty() ? c.capture.string() + " is empty" : capture.error),
      kHelp);
}

CaseResult run_case(const Case& c, const trace::Capture& capture) {
  const Script script = make_script(c, capture);
  Stage stage(c, capture, Player::kBegin);
  return Player(c, capture, script, stage).play();
}

std::vector<std::filesystem::path> find_cases(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      need_case(path);
      files.emplace_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.is_regular_file() && entry.path().extension() == ".toml") {
        files.push_back(entry.path());
      }
    }
    if (files.size() == before) {
      throw tools::CommandError(fmt::format("there is no case (*.toml) below {}", path),
                                "verbena conformance import CAPTURE -o " + path);
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

std::string report(const Case& c, const trace::Capture& capture, const CaseResult& result) {
  std::string text = fmt::format("FAIL {}\n  {}\n", c.file.string(), c.title);
  if (!c.rules.empty()) text += fmt::format("  rules: {}\n", fmt::join(c.rules, ", "));
  bool any = false;
  for (const Row& row : result.rows) any = any || row.failed();
  if (any) text += ladder(result, capture, kContextRows);
  for (const std::string& wrong : result.wrong) text += fmt::format("  {}\n", wrong);
  return text;
}

}  // namespace verbena::conformance
