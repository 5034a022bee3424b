// What several parts ask of packets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stack/wire/parse.h"
#include "stack/wire/syndrome.h"

namespace verbena::conformance {

// What precedes a datagram in its receive.
inline constexpr uint32_t kGrhBytes = 40;

inline bool is_ack(const wire::ParsedPacket& packet) {
  return packet.info->operation == Operation::kAcknowledge &&
         syndrome_kind(packet.syndrome) == SyndromeKind::kAck;
}

inline bool is_rnr_nak(const wire::ParsedPacket& packet) {
  return packet.info->operation == Operation::kAcknowledge &&
         syndrome_kind(packet.syndrome) == SyndromeKind::kRnrNak;
}

// Is this packet number in the list?
inline bool holds(const std::vector<uint32_t>& packets, uint32_t packet) {
  return std::find(packets.begin(), packets.end(), packet) != packets.end();
}

}  // namespace verbena::conformance
