// Any bytes as a capture file: the reader, the description of each frame, what the analysis says of
// them (whatever the packets are, its cross references hold together), and the drawing of it.
#include <cstdio>
#include <set>

#include "stack/wire/describe.h"
#include "tests/fuzz/input.h"
#include "tools/explain/ladder_html.h"
#include "tools/explain/ladder_text.h"
#include "tools/trace/conversation.h"

namespace verbena::fuzz {
namespace {

using trace::Index;
using trace::kNoIndex;
using trace::Trace;
using trace::TracedPacket;

void check_reference(const Trace& trace, const TracedPacket& packet, Index to) {
  if (to == kNoIndex) return;
  require(to < trace.packets.size(), "a packet refers to one that there is");
  require(trace.packets[to].connection == packet.connection, "and that is of its connection");
}

void check_packet(const Trace& trace, const TracedPacket& packet) {
  require(packet.packet.has_value() || packet.drop.has_value(),
          "a packet can be read, or there is a reason why not");
  if (packet.connection != kNoIndex) {
    require(packet.connection < trace.connections.size(), "a packet's connection is one there is");
    require(packet.side < 2, "a connection has two sides");
  }
  for (const Index to : {packet.repeats, packet.cause_packet, packet.answered_by, packet.answers,
                         packet.answers_from, packet.consequence}) {
    check_reference(trace, packet, to);
  }
  require(packet.part <= packet.parts, "a part is one of its parts");
}

void check_trace(const trace::Capture& capture) {
  const Trace trace = trace::analyse(capture);
  require(trace.packets.size() + trace.other_frames + trace.rocev1_frames == capture.frames.size(),
          "every frame is a packet, or counted as none");
  for (const TracedPacket& packet : trace.packets) check_packet(trace, packet);
  const explain::Picture picture = explain::draw(trace, {});
  require(picture.selected.size() == trace.packets.size(), "every packet is drawn");
  require(!explain::ladder_html(trace, picture, "title").empty(), "as a page");
  require(!explain::ladder_text(trace, picture, {}).empty() || trace.packets.empty(), "as text");
  std::set<Index> seen;
  for (size_t i = 0; i < trace.connections.size(); ++i) {
    for (const Index index : trace.connections[i].packets) {
      require(seen.insert(index).second, "a packet belongs to one connection");
      require(trace.packets.at(index).connection == i, "and knows which");
    }
  }
}

void check_capture(const uint8_t* data, size_t size) {
  // The stream is only read.
  std::FILE* file = fmemopen(const_cast<uint8_t*>(data), size, "rb");
  if (file == nullptr) return;  // no stream of 0 bytes on some systems
  const trace::Capture capture = trace::read_capture(file);
  for (const trace::CapturedFrame& frame : capture.frames) {
    require(!wire::describe(frame.bytes).empty(), "every frame has a description");
  }
  check_trace(capture);
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::check_capture(data, size);
  return 0;
}
