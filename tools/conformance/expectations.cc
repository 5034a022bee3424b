#include "tools/conformance/expectations.h"

#include <fmt/format.h>

#include "tools/conformance/names.h"
#include "tools/conformance/packets.h"

namespace verbena::conformance {

Exceptions exceptions_of(const Case& c, uint32_t packet) {
  Exceptions exceptions;
  for (const Difference& difference : c.differences) {
    if (difference.kind != Difference::Kind::kFields || !holds(difference.packets, packet)) {
      continue;
    }
    exceptions.ours.insert(exceptions.ours.end(), difference.ours.begin(), difference.ours.end());
  }
  for (const Ignored& ignored : c.compare.ignored) {
    if (!holds(ignored.packets, packet)) continue;
    exceptions.ignored.insert(exceptions.ignored.end(), ignored.fields.begin(),
                              ignored.fields.end());
  }
  return exceptions;
}

const Difference* not_sent(const Case& c, uint32_t packet) {
  for (const Difference& difference : c.differences) {
    if (difference.kind == Difference::Kind::kNothing && holds(difference.packets, packet)) {
      return &difference;
    }
  }
  return nullptr;
}

std::string action_text(const Case& c, const Step& step) {
  switch (step.kind) {
    case Step::Kind::kRecv:
      return fmt::format("[[recv]] {} is posted", step.index + 1);
    case Step::Kind::kSend:
      return fmt::format("[[send]] {} is posted: {}", step.index + 1,
                         word_of_enum(kWrOpcodeNames, c.sends[step.index].opcode));
    case Step::Kind::kStore:
      return fmt::format("[[store]] {}: the application writes to its memory", step.index + 1);
    case Step::Kind::kModify:
      return fmt::format("the queue pair is moved to {}",
                         word_of_enum(kQpStateNames, c.modifies[step.index].state));
    case Step::Kind::kSent:
    case Step::Kind::kPlay:
    case Step::Kind::kLost:
    case Step::Kind::kExtra:
      break;
  }
  return "";
}

}  // namespace verbena::conformance
