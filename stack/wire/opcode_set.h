// OpcodeSet: packets chosen by the names that people use for them.
//
// The name of one opcode is that of the specification with underscores: SEND_ONLY, ACK,
// READ_RESPONSE_MIDDLE, WRITE_LAST_WITH_IMMEDIATE. Its first words alone name a family: SEND,
// READ_RESPONSE. Either means all transports, unless RC_, UC_ or UD_ stands before it.
#pragma once

#include <bitset>
#include <string>
#include <string_view>

#include "stack/wire/opcode.h"

namespace verbena {

using OpcodeSet = std::bitset<256>;

// Those of that name, in any case of letters; none if there is no such name.
OpcodeSet opcodes_named(std::string_view name);

// The full name of a known opcode, without its transport.
std::string opcode_word(const OpcodeInfo& info);

}  // namespace verbena
