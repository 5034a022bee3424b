#include "tools/trace/wire_fate.h"

namespace verbena::trace {
namespace {

bool says(std::string_view fate, std::string_view words) {
  return fate.find(words) != std::string_view::npos;
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
  return fate.starts_with("dropped") || fate.starts_with("bit ");
}

bool doubled_on_wire(const TracedPacket& traced) {
  const std::string_view fate = fate_of(traced);
  return says(fate, "delivered twice") && !says(fate, "once with bit ");
}

bool overtaken_on_wire(const TracedPacket& traced) {
  return says(fate_of(traced), "put behind ");
}

}  // namespace verbena::trace
