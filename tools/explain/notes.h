// The sentence about a packet that is not as usual.
#pragma once

#include "tools/explain/words.h"

namespace verbena::explain {

// Sets `note`, and `tone` where it is trouble.
void add_note(const trace::Trace& trace, const trace::TracedPacket& traced, PacketWords& words);

}  // namespace verbena::explain
