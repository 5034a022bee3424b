#include "dpdk/capture_record.h"

#include <fmt/format.h>

#include <iterator>

namespace verbena {
namespace {

std::string wire_words(const FaultVerdict& fate) {
  if (fate.drop) return "dropped";
  std::string words;
  const auto add = [&words](std::string_view more) {
    if (!words.empty()) words += ", ";
    words += more;
  };
  if (fate.duplicate) add("delivered twice");
  if (fate.corrupt_bit) {
    add(fmt::format("{}bit {} flipped", fate.duplicate ? "once with " : "", *fate.corrupt_bit));
  }
  if (fate.overtaken_by != 0) add(fmt::format("put behind up to {} later ones", fate.overtaken_by));
  if (fate.delay_ns != 0) {
    add(fmt::format("delayed by {} us", static_cast<double>(fate.delay_ns) / 1000));
  }
  return words;
}

}  // namespace

std::string capture_comment(const FrameStory& story, std::span<const std::string> interfaces) {
  std::string comment = to_words(story.frame.note);
  if (const std::string wire = wire_words(story.frame.fate); !wire.empty()) {
    fmt::format_to(std::back_inserter(comment), "; wire: {}", wire);
  }
  for (uint32_t i = 0; i < story.received; ++i) {
    const ReceiptRecord& receipt = story.receipts[i];
    fmt::format_to(std::back_inserter(comment), "; {}: {}", interfaces[receipt.interface],
                   to_words(receipt.verdict));
  }
  if (!story.complete()) comment += "; not received when this was written";
  return comment;
}

}  // namespace verbena
