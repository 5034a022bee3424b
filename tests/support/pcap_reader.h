// Reads a whole capture file (pcap or pcapng) into memory with libpcap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace verbena::test {

struct Capture {
  std::string error;  // empty: all frames were read
  // Ethernet frames. Those of a file of link type "raw IP" get an Ethernet header of zero
  // addresses.
  std::vector<std::vector<uint8_t>> frames;
};

Capture read_capture(const std::filesystem::path& file);

}  // namespace verbena::test
