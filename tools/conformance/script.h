// Script: a case laid out in the order of its capture. Each step is a packet that the played side
// sent, one that it got, or something that its application did.
//
// Which frames belong to the case: those between its queue pairs and their peers. A frame from the
// device's address is one that Verbena must send; any other is played to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/conformance/case.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

struct Step {
  enum class Kind : uint8_t {
    kSent,    // frame `index` of the capture (from 0): Verbena must send it
    kPlay,    // frame `index` is played to Verbena
    kLost,    // frame `index` was on its way to Verbena and did not arrive
    kExtra,   // Verbena must send Script::extras[index], which the capture has not
    kRecv,    // work request `index` of Case::recvs is posted
    kSend,    // of Case::sends
    kStore,   // Case::stores
    kModify,  // Case::modifies
  };
  Kind kind = Kind::kPlay;
  size_t index = 0;
  uint32_t packet = 0;  // number of the frame, of kExtra the one that it follows; 0: none
  DurationNs time = 0;  // after the first frame
};

struct Extra {
  std::vector<FieldValue> fields;
  std::string why;
};

struct Script {
  std::vector<Step> steps;
  std::vector<Extra> extras;
  DurationNs length = 0;  // until the last frame of the case
};

// Throws tools::CommandError when the case names packets that the capture has not.
Script make_script(const Case& c, const trace::Capture& capture);

// The number of a frame in the capture, as Wireshark counts.
inline uint32_t number_of(size_t frame) {
  return static_cast<uint32_t>(frame) + 1;
}

// The queue pair of the case that sent this packet, if one did.
std::optional<size_t> sender_of(const Case& c, const wire::ParsedPacket& packet);

// Resolves a description of bytes. `bytes` is the size wanted; of what has a size of its own the
// beginning is taken when it is longer, and zeros follow when it is shorter. 0: its own size.
std::vector<uint8_t> resolve(const Data& data, size_t bytes, const trace::Capture& capture);
// The size that the description has by itself: 0 for zero and pattern.
size_t natural_size(const Data& data, const trace::Capture& capture);

}  // namespace verbena::conformance
