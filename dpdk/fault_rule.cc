#include "dpdk/fault_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace verbena {
namespace {

constexpr size_t kMaxNth = 8;
constexpr DurationNs kMaxDelayNs = 10'000'000'000;
constexpr std::string_view kRuleForm =
    "[from=DEVICE] [opcode=NAME] [nth=N], then drop=P dup=P reorder=P corrupt=P delay=TIME";
constexpr std::string_view kSelectorForm = "from=DEVICE opcode=NAME nth=N, or some of them";

struct Unit {
  std::string_view name;
  double ns;
};
constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

struct Word {
  std::string_view text;  // "drop=5%"
  std::string_view key;   // "drop"
  std::string_view value;
};

Word next_word(std::string_view& words) {
  constexpr std::string_view kSeparators = " ,";
  words.remove_prefix(std::min(words.find_first_not_of(kSeparators), words.size()));
  Word word;
  word.text = words.substr(0, words.find_first_of(kSeparators));
  words.remove_prefix(word.text.size());
  const size_t equals = word.text.find('=');
  word.key = word.text.substr(0, equals);
  if (equals != std::string_view::npos) word.value = word.text.substr(equals + 1);
  return word;
}

template <typename T>
bool parse_whole(std::string_view text, T& value, int base = 10) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end && !text.empty();
}

bool parse_decimal(std::string_view text, double& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && std::isfinite(value);
}

// A number above 1 is most likely meant as a percentage, so that is what the answer offers.
Refusal parse_share(const Word& word, double& share) {
  std::string_view number = word.value;
  const bool percent = number.ends_with('%');
  if (percent) number.remove_suffix(1);
  double value = 0;
  if (!parse_decimal(number, value) || value < 0) {
    const char* more = word.key == "reorder" ? "; reorder-by=64 for how many pass a packet" : "";
    return {
        fmt::format("'{}' is not a share of the packets", word.text),
        fmt::format("{0}=5% or {0}=0.05 for five in a hundred, {0}=1 for all{1}", word.key, more)};
  }
  share = percent ? value / 100 : value;
  if (share <= 1) return {};
  const double meant = value <= 100 ? value : 5;
  return {fmt::format("'{}' is more than all packets", word.text),
          fmt::format("{0}={1:g}% or {0}={2:g} for {1:g} in a hundred, {0}=1 for all", word.key,
                      meant, meant / 100)};
}

Refusal parse_time(const Word& word, DurationNs& ns) {
  for (const Unit& unit : kUnits) {
    double value = 0;
    std::string_view number = word.value;
    if (!number.ends_with(unit.name)) continue;
    number.remove_suffix(unit.name.size());
    if (!parse_decimal(number, value) || value < 0) continue;
    if (value * unit.ns > static_cast<double>(kMaxDelayNs)) {
      return {fmt::format("'{}' is longer than a packet can be kept", word.text),
              fmt::format("at most {}=10s", word.key)};
    }
    ns = static_cast<DurationNs>(std::llround(value * unit.ns));
    return {};
  }
  return {fmt::format("'{}' is not a time", word.text),
          fmt::format("{0}=10us, {0}=0.5ms or {0}=1s", word.key)};
}

Refusal parse_nth(const Word& word, std::vector<uint32_t>& nth) {
  const Refusal refusal{fmt::format("'{}' does not say which packets", word.text),
                        fmt::format("nth=3 for the third, nth=3+7 for the third and the seventh "
                                    "(at most {})",
                                    kMaxNth)};
  nth.clear();
  std::string_view rest = word.value;
  for (;;) {
    const size_t end = rest.find('+');
    uint32_t number = 0;
    if (!parse_whole(rest.substr(0, end), number) || number == 0) return refusal;
    nth.push_back(number);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  std::sort(nth.begin(), nth.end());
  nth.erase(std::unique(nth.begin(), nth.end()), nth.end());
  return nth.size() <= kMaxNth ? Refusal{} : refusal;
}

Refusal parse_from(const Word& word, const DeviceNames& names, uint32_t& from) {
  const auto found = std::find(names.begin(), names.end(), word.value);
  if (found == names.end()) {
    return {fmt::format("'{}': there is no such device", word.text),
            fmt::format("from={} or from={}, or neither for both directions", names[0], names[1])};
  }
  from = static_cast<uint32_t>(found - names.begin());
  return {};
}

Refusal parse_opcode(const Word& word, FaultSelector& selector) {
  selector.opcodes = opcodes_named(word.value);
  if (selector.opcodes.none()) {
    return {fmt::format("'{}': no packet has this name", word.text),
            "opcode=SEND, WRITE, READ_REQUEST, READ_RESPONSE or ACK, or one opcode of these such "
            "as SEND_ONLY or READ_RESPONSE_MIDDLE"};
  }
  selector.opcode = word.value;
  std::transform(
      selector.opcode.begin(), selector.opcode.end(), selector.opcode.begin(),
      [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return {};
}

Refusal parse_reorder_by(const Word& word, uint32_t& reorder_by) {
  if (parse_whole(word.value, reorder_by) && reorder_by >= 1 &&
      reorder_by <= FaultRule::kMaxReorderBy) {
    return {};
  }
  return {fmt::format("'{}' is not a number of packets from 1 to {}", word.text,
                      FaultRule::kMaxReorderBy),
          "reorder-by=4 for at most four packets that pass a reordered one"};
}

Refusal parse_seed(const Word& word, uint64_t& seed) {
  const bool hex = word.value.starts_with("0x");
  if (parse_whole(word.value.substr(hex ? 2 : 0), seed, hex ? 16 : 10)) return {};
  return {fmt::format("'{}' is not a whole number", word.text), "for example seed=7"};
}

// Of two values the user cannot mean both. `keys`: those of the words before it.
Refusal refuse_repetition(const Word& word, std::vector<std::string_view>& keys) {
  const bool repeated = std::find(keys.begin(), keys.end(), word.key) != keys.end();
  keys.push_back(word.key);
  if (!repeated) return {};
  return {fmt::format("'{}' is the second {} of this rule", word.text, word.key),
          fmt::format("{}= once; another rule for other packets is set by itself", word.key)};
}

// False: no word of a selector.
bool take_selector_word(const Word& word, const DeviceNames& names, FaultSelector& selector,
                        Refusal& refusal) {
  if (word.key == "from") {
    refusal = parse_from(word, names, selector.from);
  } else if (word.key == "opcode") {
    refusal = parse_opcode(word, selector);
  } else if (word.key == "nth") {
    refusal = parse_nth(word, selector.nth);
  } else {
    return false;
  }
  return true;
}

bool take_action_word(const Word& word, FaultRule& rule, Refusal& refusal) {
  if (word.key == "drop") {
    refusal = parse_share(word, rule.drop);
  } else if (word.key == "dup") {
    refusal = parse_share(word, rule.duplicate);
  } else if (word.key == "reorder") {
    refusal = parse_share(word, rule.reorder);
  } else if (word.key == "reorder-by") {
    refusal = parse_reorder_by(word, rule.reorder_by);
  } else if (word.key == "corrupt") {
    refusal = parse_share(word, rule.corrupt);
  } else if (word.key == "delay") {
    refusal = parse_time(word, rule.delay_ns);
  } else if (word.key == "jitter") {
    refusal = parse_time(word, rule.jitter_ns);
  } else if (word.key == "seed") {
    refusal = parse_seed(word, rule.seed);
  } else {
    return false;
  }
  return true;
}

std::string time_words(DurationNs ns) {
  for (size_t i = std::size(kUnits); i-- > 1;) {
    const double value = static_cast<double>(ns) / kUnits[i].ns;
    if (value >= 1) return fmt::format("{}{}", value, kUnits[i].name);
  }
  return fmt::format("{}ns", ns);
}

void add_share(std::string& words, std::string_view key, double share) {
  if (share > 0) words += fmt::format(" {}={}%", key, std::round(share * 1e10) / 1e8);
}

}  // namespace

Refusal parse_fault_rule(std::string_view words, const DeviceNames& names, FaultRule& rule) {
  rule = {};
  std::vector<std::string_view> keys;
  for (Word word = next_word(words); !word.text.empty(); word = next_word(words)) {
    Refusal refusal;
    if (!take_selector_word(word, names, rule.selector, refusal) &&
        !take_action_word(word, rule, refusal)) {
      refusal = {fmt::format("'{}' is unknown", word.text), std::string(kRuleForm)};
    }
    if (!refusal) refusal = refuse_repetition(word, keys);
    if (refusal) return refusal;
  }
  if (rule.jitter_ns > rule.delay_ns) {
    return {"jitter is longer than the delay that it varies",
            fmt::format("for example delay={} jitter={}", time_words(rule.jitter_ns),
                        time_words(rule.jitter_ns))};
  }
  if (rule.drop + rule.duplicate + rule.reorder + rule.corrupt > 0 || rule.delay_ns > 0) return {};
  return {"nothing is said to happen to the packets", std::string(kRuleForm)};
}

Refusal parse_fault_selector(std::string_view words, const DeviceNames& names,
                             FaultSelector& selector) {
  selector = {};
  std::vector<std::string_view> keys;
  for (Word word = next_word(words); !word.text.empty(); word = next_word(words)) {
    Refusal refusal;
    if (!take_selector_word(word, names, selector, refusal)) {
      refusal = {fmt::format("'{}' does not choose rules", word.text), std::string(kSelectorForm)};
    }
    if (!refusal) refusal = refuse_repetition(word, keys);
    if (refusal) return refusal;
  }
  return {};
}

std::string fault_words(const FaultSelector& selector, const DeviceNames& names) {
  std::string words;
  if (selector.from != FaultSelector::kBoth) words += " from=" + names[selector.from];
  if (!selector.any_opcode()) words += " opcode=" + selector.opcode;
  if (!selector.nth.empty()) words += fmt::format(" nth={}", fmt::join(selector.nth, "+"));
  return words.empty() ? words : words.substr(1);
}

std::string fault_words(const FaultRule& rule, const DeviceNames& names) {
  std::string words = fault_words(rule.selector, names);
  add_share(words, "drop", rule.drop);
  add_share(words, "dup", rule.duplicate);
  add_share(words, "reorder", rule.reorder);
  if (rule.reorder > 0) words += fmt::format(" reorder-by={}", rule.reorder_by);
  add_share(words, "corrupt", rule.corrupt);
  if (rule.delay_ns > 0) words += " delay=" + time_words(rule.delay_ns);
  if (rule.jitter_ns > 0) words += " jitter=" + time_words(rule.jitter_ns);
  if (rule.seed != FaultRule{}.seed) words += fmt::format(" seed={}", rule.seed);
  return words.starts_with(' ') ? words.substr(1) : words;
}

}  // namespace verbena
