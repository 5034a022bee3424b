// Two ladders side by side: left the capture, right what Verbena did; the peer on the left of each,
// the device on the right.
#pragma once

#include <string>

#include "tools/conformance/result.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

// `context`: how many rows to show before and after each failed one; the others are left out.
std::string ladder(const CaseResult& result, const trace::Capture& capture, size_t context);

// "SEND First PSN 0x1f2653 1024 B" and the like, short.
std::string packet_text(std::span<const uint8_t> frame);

}  // namespace verbena::conformance
