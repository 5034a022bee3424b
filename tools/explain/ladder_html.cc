#include "tools/explain/ladder_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/explain/packet_fields.h"
#include "tools/explain/page_assets.h"
#include "tools/explain/summary.h"
#include "tools/explain/text.h"

namespace verbena::explain {
namespace {

using nlohmann::json;
using trace::Index;
using trace::kNoIndex;
using trace::Trace;
using trace::TracedPacket;

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* class_of(Tone tone) {
  switch (tone) {
    case Tone::kRequest:
      return "request";
    case Tone::kResponse:
      return "response";
    case Tone::kManagement:
      return "management";
    case Tone::kWarning:
      return "warning";
    case Tone::kError:
      return "error";
  }
  return "";
}

class Page {
 public:
  Page(const Trace& trace, const Picture& picture) : trace_(trace), picture_(picture) {
    for (const Index i : picture.selected) shown_.insert(std::to_string(trace.packets[i].number));
  }
  std::string write(const std::string& title);

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  void columns_style(const Ladder& ladder, size_t number);
  void cards();
  void controls();
  void ladder(const Ladder& ladder, size_t number);
  void head(const Ladder& ladder);
  void names(const std::vector<Column>& columns, const char* side);
  void rows(const Ladder& ladder);
  void packet(const Ladder& ladder, Index index, const PacketWords& words);
  void fold(const Ladder& ladder, const Row& row);
  void bundle(const Ladder& ladder, const Bundle& bundle, const std::string& begin);
  void arrow_classes(const Ladder& ladder, Index connection, uint8_t side, bool lost);
  void strays();
  void facts();
  [[nodiscard]] std::string with_links(std::string_view text) const;
  [[nodiscard]] std::string time_text(const TracedPacket& traced) const {
    return milliseconds(trace_.packets.front().time, traced.time);
  }

  const Trace& trace_;
  const Picture& picture_;
  std::set<std::string, std::less<>> shown_;  // numbers of the packets that are on the page
  std::string text_;
  size_t folds_ = 0;
};

// Escaped, with a link wherever a packet is named that is on the page.
std::string Page::with_links(std::string_view text) const {
  constexpr std::string_view kPacket = "packet ";
  std::string linked;
  while (true) {
    const size_t at = text.find(kPacket);
    if (at == std::string_view::npos) return linked + escape(text);
    const size_t digits = at + kPacket.size();
    const size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    linked += escape(text.substr(0, at));
    const std::string_view number = text.substr(digits, end - digits);
    linked += shown_.contains(number) ? fmt::format("<a href=\"#p{0}\">packet {0}</a>", number)
                                      : fmt::format("{}{}", kPacket, number);
    text.remove_prefix(end);
  }
}

// A lifeline is a gradient one pixel wide in each row: rows may be of any height then.
void Page::columns_style(const Ladder& ladder, size_t number) {
  std::string lines;
  for (size_t i = 0; i < ladder.left.size(); ++i) {
    lines += fmt::format(
        "{}linear-gradient(var(--life),var(--life)) calc(var(--edge) + {} * "
        "var(--step)) 0/1px 100% no-repeat",
        lines.empty() ? "" : ",", i);
  }
  for (size_t i = 0; i < ladder.right.size(); ++i) {
    lines += fmt::format(
        ",linear-gradient(var(--life),var(--life)) calc(100% - var(--edge) - {} * "
        "var(--step)) 0/1px 100% no-repeat",
        i);
  }
  add("#ladder{} .rail{{--lefts:{};--rights:{};background:{}}}\n", number, ladder.left.size() - 1,
      ladder.right.size() - 1, lines);
  for (size_t i = 0; i < ladder.lanes.size(); ++i) {
    add("#ladder{} .lane{}{{--l:{};--r:{}}}\n", number, i, ladder.lanes[i].left,
        ladder.lanes[i].right);
  }
}

void Page::cards() {
  text_ += "<h2>Connections</h2>\n<div class=\"cards\">\n";
  for (const ConnectionSummary& summary : summarise(trace_, picture_)) {
    const trace::Connection& connection = trace_.connections[summary.connection];
    add("<section class=\"card\"><label><input type=\"checkbox\" data-connection=\"{}\" checked>"
        "<span>{}</span></label>\n<ul>",
        summary.connection, escape(connection_text(connection)));
    for (const std::string& line : summary_lines(trace_, summary)) {
      const bool bad = line.starts_with("! ");
      add("<li{}>{}</li>", bad ? " class=\"bad\"" : "", with_links(bad ? line.substr(2) : line));
    }
    text_ += "</ul></section>\n";
  }
  text_ += "</div>\n";
}

void Page::controls() {
  text_ +=
      "<div class=\"tools\">"
      "<label><input type=\"checkbox\" id=\"calm\"> only what is unusual</label>"
      "<label><input type=\"checkbox\" id=\"unfold\"> unfold all</label>\n"
      "<ul class=\"legend\" aria-label=\"Colours\">"
      "<li class=\"request\"><i></i>request</li><li class=\"response\"><i></i>response</li>"
      "<li class=\"management\"><i></i>connection manager</li>"
      "<li class=\"warning\"><i></i>repaired by the protocol</li>"
      "<li class=\"error\"><i></i>damaged, dropped or refused</li></ul></div>\n";
}

void Page::names(const std::vector<Column>& columns, const char* side) {
  add("<div class=\"side {}\">", side);
  for (size_t i = 0; i < columns.size(); ++i) {
    add("<p style=\"--i:{}\"><span class=\"gid\">{}</span> {}</p>", i,
        escape(gid_text(columns[i].gid)), qpn_text(columns[i].qpn));
  }
  for (size_t i = 0; i < columns.size(); ++i) add("<i style=\"--i:{}\"></i>", i);
  text_ += "</div>";
}

void Page::head(const Ladder& ladder) {
  text_ +=
      "<div class=\"head\"><span class=\"n\">packet</span><span class=\"t\">ms</span>"
      "<div class=\"names\">";
  names(ladder.left, "l");
  names(ladder.right, "r");
  text_ += "</div></div>\n";
}

void Page::ladder(const Ladder& ladder, size_t number) {
  std::string connections;
  for (const Lane& lane : ladder.lanes) {
    connections += fmt::format("{}{}", connections.empty() ? "" : " ", lane.connection);
  }
  add("<section class=\"ladder\" id=\"ladder{}\" data-connections=\"{}\" aria-label=\"Ladder\">\n",
      number, connections);
  head(ladder);
  rows(ladder);
  text_ += "</section>\n";
}

void Page::rows(const Ladder& ladder) {
  text_ += "<ol class=\"rows\">\n";
  for (const Row& row : ladder.rows) {
    if (row.folded()) {
      fold(ladder, row);
    } else {
      packet(ladder, row.packets.front(), row.words);
    }
  }
  text_ += "</ol>\n";
}

void Page::arrow_classes(const Ladder& ladder, Index connection, uint8_t side, bool lost) {
  const Lane* lane = ladder.lane_of(connection);
  add("lane{} {}{}", lane - ladder.lanes.data(), side == lane->left_side ? "out" : "in",
      lost ? " lost" : "");
}

void Page::packet(const Ladder& ladder, Index index, const PacketWords& words) {
  const TracedPacket& traced = trace_.packets[index];
  const auto& sides = trace_.connections[traced.connection].sides;
  add("<li class=\"{}{}\" data-connections=\"{}\"><div class=\"row packet ", class_of(words.tone),
      words.quiet() ? "" : " trouble", traced.connection);
  arrow_classes(ladder, traced.connection, traced.side, words.lost);
  add("\" id=\"p{0}\" data-packet=\"{0}\" tabindex=\"{1}\"><span class=\"n\">{0}</span>"
      "<span class=\"t\">{2}</span><div class=\"rail\"><i class=\"arrow\" role=\"img\" "
      "aria-label=\"{3} to {4}\"></i><div class=\"text\"><span class=\"label\">"
      "<span class=\"name\">{5}</span>",
      traced.number, index == picture_.selected.front() ? 0 : -1, time_text(traced),
      endpoint_text(sides[traced.side]), endpoint_text(sides[1 - traced.side]), escape(words.name));
  if (!words.psn.empty()) add("<span class=\"psn\">{}</span>", words.psn);
  add("{}</span>", escape(fmt::format("{}", fmt::join(words.details, ", "))));
  if (!words.note.empty()) add("<p class=\"note\">{}</p>", with_links(words.note));
  text_ += "</div></div></div></li>\n";
}

void Page::bundle(const Ladder& ladder, const Bundle& bundle, const std::string& begin) {
  add("<div class=\"row {} ", class_of(bundle.tone));
  arrow_classes(ladder, bundle.connection, bundle.side, bundle.lost);
  add("\" data-connections=\"{}\">{}<div class=\"rail\"><i class=\"arrow\"></i><div class=\"text\">"
      "<span class=\"label\"><span class=\"name\">{} \xC3\x97 {}</span>",
      bundle.connection, begin, bundle.count, escape(bundle.name));
  if (!bundle.first_psn.empty()) {
    add("<span class=\"psn\">{}</span>", bundle.first_psn == bundle.last_psn
                                             ? bundle.first_psn
                                             : bundle.first_psn + " to " + bundle.last_psn);
  }
  add("{}</span></div></div></div>\n", fmt::join(bundle.details(), ", "));
}

void Page::fold(const Ladder& ladder, const Row& row) {
  std::set<Index> connections;
  bool trouble = false;
  for (const Bundle& bundle : row.bundles) {
    connections.insert(bundle.connection);
    trouble = trouble || bundle.tone >= Tone::kManagement;
  }
  const size_t id = folds_++;
  add("<li class=\"fold{}\" data-connections=\"{}\">", trouble ? " trouble" : "",
      fmt::join(connections, " "));
  std::string begin = fmt::format(
      "<button type=\"button\" aria-expanded=\"false\" aria-controls=\"fold{}\">{} "
      "packets</button>",
      id, row.packets.size());
  for (const Bundle& bundle : row.bundles) {
    this->bundle(ladder, bundle, begin);
    begin = "<span class=\"n\"></span><span class=\"t\"></span>";
  }
  add("<ol id=\"fold{}\" hidden>\n", id);
  for (const Index i : row.packets) packet(ladder, i, words_of(trace_, trace_.packets[i]));
  text_ += "</ol></li>\n";
}

void Page::strays() {
  if (picture_.strays.empty()) return;
  text_ += "<h2>In no connection</h2>\n<ol class=\"strays\">\n";
  for (const Row& row : picture_.strays) {
    for (const Index i : row.packets) {
      const TracedPacket& traced = trace_.packets[i];
      const PacketWords words = words_of(trace_, traced);
      add("<li class=\"{0}\"><div class=\"row packet\" id=\"p{1}\" data-packet=\"{1}\" "
          "tabindex=\"-1\"><span class=\"n\">{1}</span><span class=\"t\">{2}</span>"
          "<p class=\"what\">{3}</p></div></li>\n",
          class_of(words.tone), traced.number, time_text(traced),
          escape(fmt::format("{} {} {}: {}", words.name, words.psn, fmt::join(words.details, ", "),
                             words.note)));
    }
  }
  text_ += "</ol>\n";
}

// For the script: {"names": [...], "packets": {"3": [[name, "text" or packet], ...]}}.
void Page::facts() {
  std::map<std::string, size_t> names;
  json list = json::array();
  json packets = json::object();
  for (const Index i : picture_.selected) {
    const TracedPacket& traced = trace_.packets[i];
    json fields = json::array();
    for (const Field& field : packet_fields(trace_, traced, trace_.packets.front().time)) {
      const auto [found, is_new] = names.try_emplace(field.name, names.size());
      if (is_new) list.push_back(field.name);
      const auto* other = std::get_if<PacketNumber>(&field.value);
      fields.push_back(
          {found->second, other != nullptr ? json(other->value) : json(std::get<0>(field.value))});
    }
    packets[std::to_string(traced.number)] = std::move(fields);
  }
  std::string text = json({{"names", list}, {"packets", packets}}).dump();
  // The end of a script element, and nothing else, could end this text.
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    text.replace(at, 1, "\\u003c");
  }
  text_ += "<script type=\"application/json\" id=\"facts\">" + text + "</script>\n";
}

std::string Page::write(const std::string& title) {
  text_ =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";
  add("<title>{}</title>\n<style>\n", escape(title));
  text_ += page::kStyleCss;
  for (size_t i = 0; i < picture_.ladders.size(); ++i) columns_style(picture_.ladders[i], i);
  const std::string about = capture_text("", trace_, picture_).substr(2);
  add("</style>\n</head>\n<body>\n<main class=\"page\">\n<h1>{}</h1>\n<p class=\"about\">{}</p>\n",
      escape(title), escape(about));
  cards();
  controls();
  for (size_t i = 0; i < picture_.ladders.size(); ++i) ladder(picture_.ladders[i], i);
  strays();
  text_ +=
      "</main>\n<aside class=\"fields\" id=\"fields\" aria-label=\"Fields of the packet\" hidden>"
      "<h2></h2><button type=\"button\" class=\"close\">Close</button>"
      "<table><tbody></tbody></table></aside>\n";
  facts();
  text_ += "<script>\n";
  text_ += page::kScriptJs;
  text_ += "</script>\n</body>\n</html>\n";
  return std::exchange(text_, {});
}

}  // namespace

std::string ladder_html(const Trace& trace, const Picture& picture, const std::string& title) {
  return Page(trace, picture).write(title);
}

}  // namespace verbena::explain
