// Requester: turns send work requests into request packets (IBTA vol. 1 ch. 9.7.1, 9.7.2).
//
// Segmentation by path MTU, PSN assignment, AckReq policy, fences, the limit on outstanding READs,
// and the cursor that go-back-N moves back. What comes back is the Completer's.
#pragma once

#include "stack/qp/engine.h"

namespace verbena::requester {

// Sends up to `budget` packets; adds their number to `sent`.
Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent);

// Continues sending from `psn`, which is outstanding (go-back-N).
void go_back(Engine& engine, Qp& qp, Psn psn, ResendCause cause);

// True when all started work requests are complete (what SQD waits for).
bool drained(const Qp& qp);

}  // namespace verbena::requester
