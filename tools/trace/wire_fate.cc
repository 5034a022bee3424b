#include "tools/trace/wire_fate.h"

namespace verbena::trace {
namespace {

bool says(std::string_view fate, std::string_view words) {
  return fate.find(words) != std::string_view::npos;
}

// A flipped bit may be one that no check covers, such as one of a MAC address. Whoever received the
// packet is named behind the fate: "; verbena1: expected PSN: executed".
bool taken_by_receiver(const TracedPacket& traced) {
  std::string_view rest = traced.comment;
  rest.remove_prefix(static_cast<size_t>(fate_of(traced).end() - rest.begin()));
  for (size_t at = rest.find("; "); at != std::string_view::npos; at = rest.find("; ")) {
    rest.remove_prefix(at + 2);
    const size_t verdict = rest.find(": ");
    if (verdict != std::string_view::npos && !rest.substr(verdict + 2).starts_with("dropped")) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view fate_of(const TracedPacket& traced) {
  constexpr std::string_view kWire = "; wire: ";
  const size_t at = traced.comment.find(kWire);
  if (at == std::string_view::npos) return {};
  const std::string_view fate = traced.comment.substr(at + kWire.size());
  return fate.substr(0, fate.find(';'));
}

bool lost_on_wire(const TracedPacket& traced) {
  const std::string_view fate = fate_of(traced);
  return fate.starts_with("dropped") || (fate.starts_with("bit ") && !taken_by_receiver(traced));
}

bool doubled_on_wire(const TracedPacket& traced) {
  const std::string_view fate = fate_of(traced);
  return says(fate, "delivered twice") && !says(fate, "once with bit ");
}

bool overtaken_on_wire(const TracedPacket& traced) {
  return says(fate_of(traced), "put behind ");
}

std::optional<Cause> told_cause(const TracedPacket& traced) {
  constexpr std::string_view kAgain = "request sent again: ";
  if (!traced.comment.starts_with(kAgain)) return std::nullopt;
  const std::string_view why = traced.comment.substr(kAgain.size());
  if (why.starts_with("after a sequence NAK")) return Cause::kSequenceNak;
  if (why.starts_with("no answer in time")) return Cause::kTimeout;
  if (why.starts_with("a READ response is missing")) return Cause::kImpliedNak;
  if (why.starts_with("the wait after an RNR NAK is over")) return Cause::kRnr;
  return Cause::kNone;
}

}  // namespace verbena::trace
