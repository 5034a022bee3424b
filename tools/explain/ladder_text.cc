#include "tools/explain/ladder_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/explain/text.h"

namespace verbena::explain {
namespace {

using trace::Index;
using trace::Trace;
using trace::TracedPacket;

constexpr size_t kColumnStep = 2;  // from one queue pair of a host to the next
constexpr size_t kNameWidth = 17;
constexpr size_t kBundleWidth = 22;  // with the count before it

struct Glyphs {
  const char* lifeline;
  const char* out;  // where an arrow begins
  const char* in;
  const char* cross;  // of an arrow and a lifeline between its ends
  const char* line;
  const char* folded_line;
  const char* right;
  const char* left;
  const char* lost;
  const char* ellipsis;
};

// clang-format off
constexpr Glyphs kBox   = {"│", "├", "┤", "┼", "─", "┄", "▶", "◀", "✗", "…"};
constexpr Glyphs kAscii = {"|", "|", "|", "+", "-", ".", ">", "<", "x", ":"};
// clang-format on

std::string_view colour_of(Tone tone) {
  switch (tone) {
    case Tone::kRequest:
      return "\033[36m";
    case Tone::kResponse:
      return "\033[32m";
    case Tone::kManagement:
      return "\033[35m";
    case Tone::kWarning:
      return "\033[33m";
    case Tone::kError:
      return "\033[31m";
  }
  return "";
}

constexpr std::string_view kPlain = "\033[0m";

// A line of text, of which each cell is one character wide.
class Line {
 public:
  explicit Line(size_t width) : cells_(width, " ") {}

  void put(size_t at, const std::string& cell) {
    if (at < cells_.size()) cells_[at] = cell;
  }
  void write(size_t at, std::string_view ascii) {
    for (const char c : ascii) put(at++, std::string(1, c));
  }
  // Cells `begin` to `end` in this colour; the others are dim.
  void colour(size_t begin, size_t end, std::string_view code) {
    begin_ = begin;
    end_ = end;
    code_ = code;
  }
  [[nodiscard]] std::string text() const {
    size_t length = cells_.size();
    while (length > 0 && cells_[length - 1] == " ") --length;
    std::string text;
    for (size_t i = 0; i < length; ++i) {
      if (!code_.empty() && i == begin_) text += code_;
      text += cells_[i];
      if (!code_.empty() && i + 1 == std::min(end_, length)) text += kPlain;
    }
    return text;
  }

 private:
  std::vector<std::string> cells_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string_view code_;
};

std::string psn_range(const Bundle& bundle) {
  if (bundle.first_psn == bundle.last_psn) return bundle.first_psn;
  return fmt::format("{} to {}", bundle.first_psn, bundle.last_psn);
}

// Breaks at blanks; a longer word stands alone.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    size_t at = text.rfind(' ', width);
    if (at == std::string_view::npos || at == 0) at = width;
    lines.emplace_back(text.substr(0, at));
    text.remove_prefix(text[at] == ' ' ? at + 1 : at);
  }
  lines.emplace_back(text);
  return lines;
}

class Renderer {
 public:
  Renderer(const Trace& trace, const TextStyle& style, const Picture& picture)
      : trace_(trace), style_(style), glyphs_(style.ascii ? kAscii : kBox) {
    style_.width = std::max(style_.width, kLeastWidth);
    if (picture.selected.empty()) return;
    const TracedPacket& last = trace.packets[picture.selected.back()];
    number_width_ = std::max<size_t>(6, std::to_string(last.number).size());
    for (const Index i : picture.selected) {
      time_width_ = std::max(time_width_, time_text(trace.packets[i]).size());
    }
  }

  void ladder(const Ladder& ladder);
  void strays(const std::vector<Row>& rows);
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  // An arrow that is to be drawn.
  struct Arrow {
    const Lane* lane = nullptr;
    bool to_right = true;
    bool folded = false;
    bool lost = false;
    Tone tone = Tone::kRequest;
    std::string prefix;  // number and time
    std::string label;
    std::vector<std::string> parts;  // more of the label, as far as there is room
  };

  void head(const Ladder& ladder);
  void row(const Ladder& ladder, const Row& row);
  void bundles(const Ladder& ladder, const Row& row);
  void arrow(const Ladder& ladder, const Arrow& arrow);
  void below(const Ladder& ladder, const std::string& text, Tone tone);
  void lifelines(const Ladder& ladder, Line& line) const;
  void line(const Line& line) { text_ += line.text() + '\n'; }
  [[nodiscard]] std::string prefix(const TracedPacket& traced) const;
  [[nodiscard]] std::string time_text(const TracedPacket& traced) const {
    return milliseconds(trace_.packets.front().time, traced.time);
  }

  // Character positions.
  [[nodiscard]] size_t left_at(size_t column) const {
    return number_width_ + time_width_ + 4 + column * kColumnStep;
  }
  [[nodiscard]] size_t right_at(size_t column) const {
    return style_.width - 1 - column * kColumnStep;
  }
  [[nodiscard]] size_t label_at(const Ladder& ladder) const {
    return left_at(ladder.left.size() - 1) + 4;
  }
  [[nodiscard]] size_t label_width(const Ladder& ladder) const {
    return right_at(ladder.right.size() - 1) - 3 - label_at(ladder);
  }

  const Trace& trace_;
  TextStyle style_;
  const Glyphs& glyphs_;
  size_t number_width_ = 6;
  size_t time_width_ = 7;
  std::string text_;
};

std::string Renderer::prefix(const TracedPacket& traced) const {
  return fmt::format("{:>{}}  {:>{}}", traced.number, number_width_, time_text(traced),
                     time_width_);
}

void Renderer::lifelines(const Ladder& ladder, Line& line) const {
  for (size_t i = 0; i < ladder.left.size(); ++i) line.put(left_at(i), glyphs_.lifeline);
  for (size_t i = 0; i < ladder.right.size(); ++i) line.put(right_at(i), glyphs_.lifeline);
}

// Each queue pair's name stands over its column, those of outer columns above those of inner ones.
void Renderer::head(const Ladder& ladder) {
  const auto text = [](const Column& column) {
    return endpoint_text({column.gid, {}, column.qpn});
  };
  for (size_t i = 0; i < std::max(ladder.left.size(), ladder.right.size()); ++i) {
    const std::string left = i < ladder.left.size() ? text(ladder.left[i]) : "";
    const std::string right = i < ladder.right.size() ? text(ladder.right[i]) : "";
    Line line(style_.width);
    for (size_t j = 0; j < std::min(i, ladder.left.size()); ++j) {
      line.put(left_at(j), glyphs_.lifeline);
    }
    for (size_t j = 0; j < std::min(i, ladder.right.size()); ++j) {
      line.put(right_at(j), glyphs_.lifeline);
    }
    if (i == 0)
      line.write(0, fmt::format("{:>{}}  {:>{}}", "packet", number_width_, "ms", time_width_));
    const size_t right_begin = right_at(i) + 1 - std::min(right.size(), right_at(i) + 1);
    const bool both = left_at(i) + left.size() + 2 <= right_begin;
    if (both || right.empty()) {
      line.write(left_at(i), left);
      line.write(right_begin, right);
      this->line(line);
      continue;
    }
    // Two long IPv6 addresses: one line each.
    Line second = line;
    line.write(left_at(i), left);
    this->line(line);
    second.write(0, std::string(left_at(0) - 1, ' '));
    if (i < ladder.left.size()) second.put(left_at(i), glyphs_.lifeline);
    second.write(right_begin, right);
    this->line(second);
  }
}

void Renderer::arrow(const Ladder& ladder, const Arrow& arrow) {
  Line line(style_.width);
  lifelines(ladder, line);
  line.write(0, arrow.prefix);
  if (arrow.folded) line.put(number_width_ - 1, glyphs_.ellipsis);
  const size_t from = left_at(arrow.lane->left);
  const size_t to = right_at(arrow.lane->right);
  for (size_t x = from + 1; x < to; ++x) {
    const bool crosses = (x <= left_at(ladder.left.size() - 1) && (x - from) % kColumnStep == 0) ||
                         (x >= right_at(ladder.right.size() - 1) && (to - x) % kColumnStep == 0);
    if (crosses) {
      line.put(x, glyphs_.cross);
    } else {
      line.put(x, arrow.folded ? glyphs_.folded_line : glyphs_.line);
    }
  }
  line.put(arrow.to_right ? from : to, arrow.to_right ? glyphs_.out : glyphs_.in);
  if (arrow.to_right) {
    line.put(to - 1, arrow.lost ? glyphs_.lost : glyphs_.right);
  } else {
    line.put(from + 1, arrow.lost ? glyphs_.lost : glyphs_.left);
  }
  std::string label = arrow.label;
  const size_t room = label_width(ladder);
  size_t part = 0;
  while (part < arrow.parts.size() && label.size() + 2 + arrow.parts[part].size() <= room) {
    label += (part == 0 ? "  " : ", ") + arrow.parts[part];
    ++part;
  }
  line.write(label_at(ladder) - 1, fmt::format(" {} ", label.substr(0, room)));
  if (style_.colour) line.colour(from, to + 1, colour_of(arrow.tone));
  this->line(line);
  if (part == arrow.parts.size()) return;
  std::string rest;
  for (; part < arrow.parts.size(); ++part) rest += (rest.empty() ? "" : ", ") + arrow.parts[part];
  below(ladder, rest, arrow.tone);
}

// Text between the lifelines.
void Renderer::below(const Ladder& ladder, const std::string& text, Tone tone) {
  constexpr size_t kIndent = 2;
  for (const std::string& part : wrap(text, label_width(ladder) - kIndent)) {
    Line line(style_.width);
    lifelines(ladder, line);
    const size_t at = label_at(ladder) + kIndent;
    line.write(at, part);
    if (style_.colour) line.colour(at, at + part.size(), colour_of(tone));
    this->line(line);
  }
}

void Renderer::row(const Ladder& ladder, const Row& row) {
  if (row.folded()) {
    bundles(ladder, row);
    return;
  }
  const TracedPacket& traced = trace_.packets[row.packets.front()];
  Arrow arrow;
  arrow.lane = ladder.lane_of(traced.connection);
  arrow.to_right = traced.side == arrow.lane->left_side;
  arrow.lost = row.words.lost;
  arrow.tone = row.words.tone;
  arrow.prefix = prefix(traced);
  arrow.label = row.words.psn.empty()
                    ? row.words.name
                    : fmt::format("{:{}} PSN {}", row.words.name, kNameWidth, row.words.psn);
  arrow.parts = row.words.details;
  this->arrow(ladder, arrow);
  if (!row.words.note.empty()) below(ladder, row.words.note, row.words.tone);
}

void Renderer::bundles(const Ladder& ladder, const Row& row) {
  for (const Bundle& bundle : row.bundles) {
    Arrow arrow;
    arrow.lane = ladder.lane_of(bundle.connection);
    arrow.to_right = bundle.side == arrow.lane->left_side;
    arrow.folded = true;
    arrow.lost = bundle.lost;
    arrow.tone = bundle.tone;
    arrow.label = fmt::format("{} x {}", bundle.count, bundle.name);
    if (!bundle.first_psn.empty()) {
      arrow.label = fmt::format("{:{}} PSN {}", arrow.label, kBundleWidth, psn_range(bundle));
    }
    arrow.parts = bundle.details();
    this->arrow(ladder, arrow);
  }
}

void Renderer::ladder(const Ladder& ladder) {
  head(ladder);
  for (const Row& row : ladder.rows) this->row(ladder, row);
}

void Renderer::strays(const std::vector<Row>& rows) {
  if (rows.empty()) return;
  text_ += "In no connection:\n";
  for (const Row& row : rows) {
    const TracedPacket& traced = trace_.packets[row.packets.front()];
    std::string words = row.words.name;
    if (row.folded()) words = count_text(row.packets.size(), "more frame") + " like it";
    if (!row.words.psn.empty()) words += " PSN " + row.words.psn;
    for (const std::string& detail : row.words.details) words += ", " + detail;
    if (!row.words.note.empty()) words += ": " + row.words.note;
    const std::string begin = prefix(traced) + "  ";
    std::string lead = begin;
    for (const std::string& line : wrap(words, style_.width - begin.size() - 2)) {
      text_ += lead + line + '\n';
      lead.assign(begin.size() + 2, ' ');
    }
  }
}

}  // namespace

std::string ladder_text(const Trace& trace, const Picture& picture, const TextStyle& style) {
  Renderer renderer(trace, style, picture);
  std::string text;
  for (const Ladder& ladder : picture.ladders) {
    renderer.ladder(ladder);
    text += renderer.take() + '\n';
  }
  renderer.strays(picture.strays);
  const std::string strays = renderer.take();
  if (!strays.empty()) text += strays + '\n';
  return text;
}

}  // namespace verbena::explain
