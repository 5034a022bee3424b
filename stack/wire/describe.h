// One line of text for a packet, shared by tools, captures' comments and tests:
// "RC SEND First QPN 0x11 PSN 1234 len 1024 A" and the like. Allocates; not for the data path.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stack/wire/parse.h"

namespace verbena::wire {

// What the value of a NAK's syndrome says: "PSN sequence error" and the like.
const char* nak_name(uint8_t syndrome);

std::string describe(const ParsedPacket& packet);
// Parses first; a frame that does not parse gives "dropped: <reason>".
std::string describe(std::span<const uint8_t> frame);

}  // namespace verbena::wire
