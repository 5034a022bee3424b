// verbena explain: what a capture says, as a ladder diagram.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/commands.h"
#include "tools/error.h"
#include "tools/explain/ladder_html.h"
#include "tools/explain/ladder_text.h"
#include "tools/explain/summary.h"
#include "tools/explain_json.h"
#include "tools/trace/capture_reader.h"

namespace verbena::tools {

namespace {

constexpr Qpn kLargestQpn = 0xFFFFFF;

Qpn parse_qpn(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  Qpn qpn = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), qpn, hex ? 16 : 10);
  if (error != std::errc{} || end != digits.data() + digits.size() || qpn > kLargestQpn) {
    throw CommandError(fmt::format("--qp: '{}' is no QPN", text),
                       "a number of 24 bits, as 0x00012f or 303", 2);
  }
  return qpn;
}

trace::Capture read(const std::string& file) {
  if (file != "-") {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
      throw CommandError(fmt::format("{} is a directory", file), "the name of a capture in it");
    }
  }
  trace::Capture capture = file == "-" ? trace::read_capture(fdopen(dup(STDIN_FILENO), "rb"))
                                       : trace::read_capture(std::filesystem::path(file));
  if (!capture.error.empty() && capture.frames.empty()) {
    const bool named = capture.error.starts_with(file);
    throw CommandError(named ? capture.error : fmt::format("{}: {}", file, capture.error),
                       "a pcap or pcapng file, as tcpdump, Wireshark and `verbena capture` write");
  }
  // What was read up to a fault is worth showing: a capture that is still being written ends so.
  if (!capture.error.empty()) {
    fmt::print(stderr, "verbena: {}: {}; shown is what comes before that\n", file, capture.error);
  }
  return capture;
}

size_t terminal_width() {
  constexpr size_t kDefault = 100;
  constexpr size_t kWidest = 120;
  const char* columns = std::getenv("COLUMNS");
  const size_t wanted = columns == nullptr ? 0 : std::strtoul(columns, nullptr, 10);
  if (wanted > 0) return std::min(wanted, kWidest);
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::min<size_t>(size.ws_col, kWidest);
}

bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::string summary_text(const trace::Trace& trace, const explain::Picture& picture) {
  std::string text;
  for (const explain::ConnectionSummary& summary : explain::summarise(trace, picture)) {
    text += explain::connection_text(trace.connections[summary.connection]) + '\n';
    for (const std::string& line : explain::summary_lines(trace, summary)) {
      text += fmt::format("  {}\n", line);
    }
  }
  return text;
}

bool anything_folded(const explain::Picture& picture) {
  const auto folded = [](const explain::Row& row) { return row.folded(); };
  return std::any_of(picture.ladders.begin(), picture.ladders.end(),
                     [&](const explain::Ladder& ladder) {
                       return std::any_of(ladder.rows.begin(), ladder.rows.end(), folded);
                     }) ||
         std::any_of(picture.strays.begin(), picture.strays.end(), folded);
}

// Nothing to draw is a mistake in the question.
void check(const std::string& name, const trace::Trace& trace, const explain::Picture& picture) {
  if (trace.packets.empty()) {
    throw CommandError(explain::capture_text(name, trace, picture),
                       "tcpdump -r " + name + ", to see what is in it");
  }
  if (picture.selected.empty()) {
    throw CommandError(fmt::format("{}: no packet is selected; it has packets {} to {}", name,
                                   trace.packets.front().number, trace.packets.back().number),
                       "other values of --qp, --from and --count, or none");
  }
}

void print_text(const std::string& name, const trace::Trace& trace, const explain::Picture& picture,
                bool ascii) {
  explain::TextStyle style;
  style.width = terminal_width();
  style.colour = colour_wanted();
  style.ascii = ascii;
  fmt::print("{}\n\n{}{}", explain::capture_text(name, trace, picture),
             explain::ladder_text(trace, picture, style), summary_text(trace, picture));
  if (anything_folded(picture)) {
    fmt::print("\nDotted arrows stand for several packets; --all shows each.\n");
  }
}

void write_page(const std::string& name, const trace::Trace& trace, const explain::Picture& picture,
                const std::string& file) {
  std::error_code error;
  if (std::filesystem::equivalent(name, file, error)) {
    throw CommandError(fmt::format("--html {} would overwrite the capture", file),
                       "--html FILE, the name of the page to write");
  }
  const std::string title = std::filesystem::path(name).filename().string();
  std::ofstream page(file, std::ios::binary);
  page << explain::ladder_html(trace, picture, title) << std::flush;
  if (!page) {
    throw CommandError(fmt::format("{} cannot be written: {}", file, std::strerror(errno)),
                       "a file in a directory of yours");
  }
  fmt::print("{} has the ladder diagram; open it in a browser\n", file);
}

}  // namespace

void explain(const Context& context, const ExplainOptions& options) {
  if (!options.html.empty() && context.json) {
    throw CommandError("--html and --json are two forms of the same facts", "one of them at a time",
                       2);
  }
  explain::Selection selection;
  for (const std::string& qpn : options.qpns) selection.qpns.push_back(parse_qpn(qpn));
  selection.from = options.from;
  if (options.count != 0) selection.count = options.count;
  selection.all = options.all;

  const trace::Capture capture = read(options.capture);
  const trace::Trace trace = trace::analyse(capture);
  const explain::Picture picture = explain::draw(trace, selection);
  const std::string name = options.capture == "-" ? "stdin" : options.capture;
  check(name, trace, picture);
  if (!options.html.empty()) {
    write_page(name, trace, picture, options.html);
  } else if (context.json) {
    fmt::print("{}\n", explain_json(trace, picture).dump(2));
  } else {
    print_text(name, trace, picture, options.ascii);
  }
}

}  // namespace verbena::tools
