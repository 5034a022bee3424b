// What the comments of Verbena's own captures say (docs/daemon.md): why a packet was sent, and what
// the wire did to it behind the place of the capture. Other programs' captures say nothing of the
// kind.
#pragma once

#include <optional>
#include <string_view>

#include "tools/trace/conversation.h"

namespace verbena::trace {

// In words: "dropped", "delivered twice, put behind up to 3 later ones". Empty: nothing, or nobody
// says.
std::string_view fate_of(const TracedPacket& traced);

// Came to no receiver, or so damaged that none took it, which is the same.
bool lost_on_wire(const TracedPacket& traced);
// Came to the receiver twice, both times whole.
bool doubled_on_wire(const TracedPacket& traced);
// Came behind later ones: the comment does not say which.
bool overtaken_on_wire(const TracedPacket& traced);

// Why it was sent again, in its sender's own words. Nothing when it was not, or nobody says.
std::optional<Cause> told_cause(const TracedPacket& traced);

}  // namespace verbena::trace
