#include "tools/conformance/case_text.h"

#include <charconv>

namespace verbena::conformance {
namespace {

constexpr uint32_t kMaxPackets = 1 << 24;

std::optional<std::vector<uint8_t>> parse_hex(std::string_view text) {
  std::vector<uint8_t> bytes;
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits += c;
  }
  if (digits.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < digits.size(); i += 2) {
    uint8_t byte = 0;
    const char* end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) return std::nullopt;
    bytes.push_back(byte);
  }
  return bytes;
}

std::optional<uint32_t> parse_decimal(std::string_view text) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  const size_t from = text.find_first_not_of(' ');
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(' ') - from + 1);
}

}  // namespace

std::optional<std::vector<uint32_t>> parse_packets(std::string_view text) {
  std::vector<uint32_t> packets;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view word = trim(text.substr(0, comma));
    more = comma != std::string_view::npos;
    text = more ? text.substr(comma + 1) : "";
    const size_t dash = word.find('-');
    const auto first = parse_decimal(trim(word.substr(0, dash)));
    const auto last =
        dash == std::string_view::npos ? first : parse_decimal(trim(word.substr(dash + 1)));
    if (!first || !last || *first == 0 || *last < *first || *last - *first > kMaxPackets) {
      return std::nullopt;
    }
    for (uint32_t packet = *first; packet <= *last; ++packet) packets.push_back(packet);
  }
  return packets;
}

std::optional<Data> parse_data(std::string_view text) {
  const size_t space = text.find(' ');
  const std::string_view kind = text.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? "" : text.substr(space + 1);
  Data data;
  if (kind == "zero" && rest.empty()) return data;
  if (kind == "hex") {
    const auto bytes = parse_hex(rest);
    if (!bytes) return std::nullopt;
    data.kind = Data::Kind::kHex;
    data.bytes = *bytes;
    return data;
  }
  if (kind == "pattern") {
    const auto seed = parse_decimal(trim(rest));
    if (!seed) return std::nullopt;
    data.kind = Data::Kind::kPattern;
    data.seed = *seed;
    return data;
  }
  if (kind == "packets") {
    const auto packets = parse_packets(rest);
    if (!packets) return std::nullopt;
    data.kind = Data::Kind::kPackets;
    data.packets = *packets;
    return data;
  }
  return std::nullopt;
}

}  // namespace verbena::conformance
