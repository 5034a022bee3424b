// Addresses, numbers and durations as the explanations write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stack/types.h"
#include "stack/wire/psn.h"
#include "tools/trace/conversation.h"

namespace verbena::explain {

std::string gid_text(const Gid& gid);          // "10.0.0.1", "fd00::1"
std::string mac_text(const MacAddr& mac);      // "02:00:00:00:00:01"
std::string psn_text(Psn psn);                 // "0x00012f"
std::string qpn_text(std::optional<Qpn> qpn);  // "QPN 0x00012f", "QPN unknown"
// "12.345", for columns; of a time before `start`, "-0.012".
std::string milliseconds(Timestamp start, Timestamp time);
std::string duration_text(DurationNs duration);  // "12.3 ms", three digits and a unit
// "1 packet", "2 packets".
std::string count_text(uint64_t count, std::string_view noun);

std::string endpoint_text(const trace::Endpoint& endpoint);  // "10.0.0.1 QPN 0x00012f"
std::string_view service_name(trace::Service service);       // "RC", "connection manager"

}  // namespace verbena::explain
