// Unreliable datagrams: one packet each way, no acknowledgement, any peer (IBTA vol. 1 ch. 9.8.3).
//
// A send completes when its packet has left. A receive begins with 40 bytes where a global route
// header would stand: the IPv6 header, or 20 zero bytes and the IPv4 header (UD-2, Annex A17).
// Wrong Q_Key or no receive work request: dropped and counted (UD-4, UD-7).
#pragma once

#include "stack/qp/engine.h"
#include "stack/wire/parse.h"

namespace verbena::ud {

// Sends the fetched work request at the cursor.
Turn send_datagram(Engine& engine, Qp& qp, uint32_t& sent);

void on_packet(Engine& engine, Qp& qp, const wire::ParsedPacket& packet);

// The datagram that waited in Placement could not be stored.
void on_store_failed(Engine& engine, Qp& qp, MemResult result);

}  // namespace verbena::ud
