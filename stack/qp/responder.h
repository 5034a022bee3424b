// Responder: inbound requests (IBTA vol. 1 ch. 9.7.4, 9.7.5, 9.9.3).
//
// A request in sequence goes through the same steps always, in this order; the first that objects
// ends it:
//   check_psn -> check_op_sequence -> check_op_valid -> check_length -> check_resources ->
//   check_rkey -> execute -> complete -> acknowledge
// Answers are not sent here but noted, and sent by send() when the queue pair's turn comes; so the
// ACKs of a burst coalesce into one. Answers leave in PSN order.
#pragma once

#include "stack/qp/engine.h"
#include "stack/wire/parse.h"

namespace verbena::responder {

void on_request(Engine& engine, Qp& qp, const wire::ParsedPacket& packet);

// Sends what is noted: READ responses, ACK, NAK. Adds the number of packets to `sent`.
Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent);

// Request data that waited in Placement, from the packet `psn` on, could not be stored.
void on_store_failed(Engine& engine, Qp& qp, Psn psn, MemResult result);

}  // namespace verbena::responder
