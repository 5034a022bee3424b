// What each packet of a connection is to those before it: step two of analyse() (conversation.h).
//
// It holds only for one connection at a time and looks at every packet once, in the order of the
// capture. PSNs are counted on beyond 24 bits, so that they can be compared as numbers.
#pragma once

#include "tools/trace/conversation.h"

namespace verbena::trace {

// Fills in `path_mtu` of the connection, and what TracedPacket says from `place` on.
void explain_sequence(Trace& trace, Connection& connection);

}  // namespace verbena::trace
