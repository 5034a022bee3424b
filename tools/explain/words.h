// One packet in words: what an arrow of a ladder diagram says.
//
// Both renderings, text and HTML, take their words from here, and so does whoever else shows
// packets to people.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/conversation.h"

namespace verbena::explain {

// The colour of an arrow.
enum class Tone : uint8_t {
  kRequest,
  kResponse,
  kManagement,  // of the connection manager
  kWarning,     // sent again, a gap, RNR, CNP: the protocol copes
  kError,       // damaged, dropped or refused for good
};

struct PacketWords {
  std::string name;                  // "SEND First", "ACK", "CM REQ"
  std::string psn;                   // "0x00012f"; empty where there is none
  std::vector<std::string> details;  // "1024 B", "MSN 3", "answers packets 1 to 2"
  std::string note;                  // a plain sentence, when there is something to explain
  Tone tone = Tone::kRequest;
  bool lost =
      false;  // no receiver takes it: it is damaged, or the capture says that it was dropped

  // Nothing about it needs to be read: it may be folded away.
  [[nodiscard]] bool quiet() const { return note.empty() && tone < Tone::kManagement; }
};

PacketWords words_of(const trace::Trace& trace, const trace::TracedPacket& traced);

// Why no receiver takes a packet: "wrong ICRC".
std::string drop_text(DropReason reason);

}  // namespace verbena::explain
