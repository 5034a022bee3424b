// Reads a whole capture file (pcap or pcapng) into memory with libpcap.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "stack/base/time.h"

namespace verbena::trace {

struct CapturedFrame {
  Timestamp time = 0;  // nanoseconds since the epoch, whatever the file's own precision is
  // An Ethernet frame. Those of a file of link type "raw IP" get an Ethernet header of zero
  // addresses.
  std::vector<uint8_t> bytes;
  bool cut = false;  // the capture holds less of it than there was on the wire
};

struct Capture {
  std::string error;  // empty: all frames were read; else what stopped it, after those in `frames`
  std::vector<CapturedFrame> frames;
};

Capture read_capture(const std::filesystem::path& file);
// The same from an open file, which is closed.
Capture read_capture(std::FILE* file);

}  // namespace verbena::trace
