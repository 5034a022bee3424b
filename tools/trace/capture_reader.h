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
  // An Ethernet frame. Files of link type "raw IP" or "Linux cooked" (what `tcpdump -i any` writes)
  // have no Ethernet header: it is made up, with addresses of zeros.
  std::vector<uint8_t> bytes;
  uint32_t missing_bytes = 0;  // of its end, which the capture does not hold
  // Its whole length as the file says, with the link layer that it has there and not the made-up
  // one.
  uint32_t wire_bytes = 0;
  std::string comment;  // pcapng only
};

struct Capture {
  std::string error;  // empty: all frames were read; else what stopped it, after those in `frames`
  std::vector<CapturedFrame> frames;
};

Capture read_capture(const std::filesystem::path& file);
// The same from an open file, which is closed.
Capture read_capture(std::FILE* file);

}  // namespace verbena::trace
