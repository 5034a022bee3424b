// The blocks of a pcapng file (draft-ietf-opsawg-pcapng), little-endian, nanosecond timestamps.
//
// Pure encoders; Debian's libpcap cannot write this format.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace verbena::pcapng {

// Section header with hardware and application texts.
void append_section(std::vector<uint8_t>& out, std::string_view hardware,
                    std::string_view application);

// Interface description: Ethernet, nanoseconds. Interfaces are numbered in order from 0.
void append_interface(std::vector<uint8_t>& out, std::string_view name, uint32_t snap_bytes);

// Enhanced packet block, with a comment unless that is empty. The caller fills in the frame, which
// is returned, before it appends anything more.
std::span<uint8_t> append_packet(std::vector<uint8_t>& out, uint32_t interface,
                                 uint64_t timestamp_ns, uint32_t frame_bytes,
                                 std::string_view comment);

}  // namespace verbena::pcapng
