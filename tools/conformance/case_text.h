// The short texts within a case file: lists of packets, and descriptions of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/conformance/case.h"

namespace verbena::conformance {

// "1-5, 7" -> 1 2 3 4 5 7; nothing when it is no such list.
std::optional<std::vector<uint32_t>> parse_packets(std::string_view text);

// Nothing when the text describes no bytes.
std::optional<Data> parse_data(std::string_view text);
inline constexpr const char* kDataHelp =
    "\"zero\", \"hex 00 1f\", \"pattern 7\" or \"packets 2-5, 7\" (the payloads of these)";

}  // namespace verbena::conformance
