// The blocks of a pcapng file (draft-ietf-opsawg-pcapng), little-endian, nanosecond timestamps.
//
// Pure encoders; Debian's libpcap cannot write this format. A packet is written as head + frame +
// tail, so that the frame is copied once only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace verbena::pcapng {

// Section header with hardware and application texts.
void append_section(std::vector<uint8_t>& out, std::string_view hardware,
                    std::string_view application);

// Interface description: Ethernet, nanoseconds. Interfaces are numbered in order from 0.
void append_interface(std::vector<uint8_t>& out, std::string_view name, uint32_t snap_bytes);

inline constexpr uint32_t kPacketHeadBytes = 28;
inline constexpr uint32_t kMaxPacketTailBytes = 3 + 4;

// What stands before and after a frame: an enhanced packet block without options.
struct PacketFrame {
  std::array<uint8_t, kPacketHeadBytes> head;
  std::array<uint8_t, kMaxPacketTailBytes> tail;
  uint32_t tail_bytes;
};
PacketFrame frame_packet(uint32_t interface, uint64_t timestamp_ns, uint32_t frame_bytes);

}  // namespace verbena::pcapng
