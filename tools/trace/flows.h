// Groups packets into connections: step one of analyse() (conversation.h).
//
// A flow is all packets of one transport from one address to one QP of another. The two flows of an
// RC or UC connection are found by the best evidence there is, see Pairing.
#pragma once

#include "tools/trace/conversation.h"

namespace verbena::trace {

// Fills in `trace.connections` (but the path MTU) and each packet's `connection` and `side`.
void find_connections(Trace& trace);

}  // namespace verbena::trace
