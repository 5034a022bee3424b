// The sentence about a packet that is not as usual.
#pragma once

#include <string_view>

#include "tools/explain/words.h"

namespace verbena::explain {

// Sets `note`, and `tone` where it is trouble.
void add_note(const trace::Trace& trace, const trace::TracedPacket& traced, PacketWords& words);

// What the wire did to the packet behind the capture's place: "dropped", "delivered twice".
// Comments of Verbena's own captures say it (docs/daemon.md); empty: nothing, or nobody says.
std::string_view fate_of(const trace::TracedPacket& traced);
// Whether it came to no receiver, or damaged.
bool lost_on_wire(const trace::TracedPacket& traced);

}  // namespace verbena::explain
