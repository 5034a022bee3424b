// The READs that a responder has accepted: their answers, and their answers again.
//
// The newest max_dest_rd_atomic READs are remembered with their PSNs (RC-RSP-33). Responses are
// made from memory when they are sent, a repeated READ from memory again (RC-RSP-31). They leave in
// PSN order.
#pragma once

#include "stack/qp/engine.h"
#include "stack/wire/parse.h"

namespace verbena::read_replies {

// False while as many READs as negotiated are unanswered (RC-RSP-13).
bool has_room(const Qp& qp);

// Takes a checked READ request with the expected PSN: advances PSN and MSN (RC-MSN-2).
void accept(Qp& qp, const wire::ParsedPacket& packet);

// A duplicate READ: its responses will be sent again from its PSN on. False if it is none of those
// remembered, or asks for something else.
bool replay(Qp& qp, const wire::ParsedPacket& packet);

// True while responses are to be sent, for the first time or again.
bool pending(const Qp& qp);

// True while a READ was not answered in full even once: what follows it must not change its data.
// One that is being answered again brings the memory of now, whatever came between.
bool unanswered(const Qp& qp);

// True if `psn` lies before the first response that is still to be sent.
bool acks_before_pending(const Qp& qp, Psn psn);

// Sends responses. Adds the number of packets to `sent`.
Turn send(Engine& engine, Qp& qp, uint32_t budget, uint32_t& sent);

}  // namespace verbena::read_replies
