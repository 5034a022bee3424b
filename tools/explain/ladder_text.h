// Ladder diagrams as text, for terminals and mails.
#pragma once

#include <string>

#include "tools/explain/ladder.h"

namespace verbena::explain {

struct TextStyle {
  size_t width = 100;  // in characters; at least kLeastWidth is taken
  bool colour = false;
  bool ascii = false;  // no box drawing characters
};

inline constexpr size_t kLeastWidth = 80;

// Every line ends with a line feed. Times are counted from the capture's first packet.
std::string ladder_text(const trace::Trace& trace, const Picture& picture, const TextStyle& style);

}  // namespace verbena::explain
