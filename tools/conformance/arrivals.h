// What the network did with the packets of a connection on the way to one side, as that side's
// answers tell: a capture shows what passed its own place only.
#pragma once

#include "tools/conformance/case.h"
#include "tools/trace/conversation.h"

namespace verbena::conformance {

// Fills in `lost` and `late` for the device on `side`. RC only.
void infer_arrivals(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                    NetworkSection& network);

}  // namespace verbena::conformance
