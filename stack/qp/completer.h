// Completer: what comes back for requests. ACKs retire work requests; NAKs, implied NAKs and
// timeouts start recovery; READ responses are placed (IBTA vol. 1 ch. 9.7.5, 9.7.6, 9.9.2).
//
//   ACK p              all up to p is done                                     RC-REQ-10
//   READ response p    all before p is done; its data is placed                RC-REQ-11, -12
//   NAK sequence p     all before p is done; resend from p, one retry less     RC-REQ-20, -21
//   RNR NAK p          all before p is done; wait, then resend from p          RC-REQ-40, -41
//   other NAK p        all before p is done; p's work request fails            section 4.4
//   timeout            resend from the oldest outstanding, one retry less      RC-REQ-33
// Any progress restores both retry counters (RC-REQ-16).
#pragma once

#include "stack/qp/engine.h"
#include "stack/wire/parse.h"

namespace verbena::completer {

void on_response(Engine& engine, Qp& qp, const wire::ParsedPacket& packet);

// The queue pair's timer has come.
void on_timer(Engine& engine, Qp& qp);

// READ response data that waited in Placement could not be stored.
void on_store_failed(Engine& engine, Qp& qp, MemResult result);

}  // namespace verbena::completer
