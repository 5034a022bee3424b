// What the network did with the packets of a connection on the way to one side: a capture shows
// what passed its own place only. Verbena's captures say it in comments; else that side's answers
// tell.
#pragma once

#include "tools/conformance/case.h"
#include "tools/trace/conversation.h"

namespace verbena::conformance {

// Fills in `lost`, `late` and `repeated` for the device on `side`. RC only.
void find_arrivals(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                   NetworkSection& network);

}  // namespace verbena::conformance
