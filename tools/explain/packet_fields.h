// All that a packet's headers say, field by field.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tools/trace/conversation.h"

namespace verbena::explain {

// Another packet, by its number in the capture.
struct PacketNumber {
  uint32_t value = 0;
};

struct Field {
  std::string name;  // "Destination QPN"
  std::variant<std::string, PacketNumber> value;
};

// In the order of the frame: link, IP, UDP, BTH, extended headers, payload; then what other packets
// it refers to. `start`: the time that times are counted from.
std::vector<Field> packet_fields(const trace::Trace& trace, const trace::TracedPacket& traced,
                                 Timestamp start);

}  // namespace verbena::explain
