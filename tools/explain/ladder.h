// Ladder diagrams: which packets are in one, which columns it has, and what is folded.
//
// A column is a queue pair. Those of one host stand together, requesters' hosts to the left; so the
// arrows lie between two groups of columns. A few connections share a ladder, in which the time
// runs on for all; many get one each.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tools/explain/words.h"
#include "tools/trace/conversation.h"

namespace verbena::explain {

// What of a capture is shown.
struct Selection {
  std::vector<Qpn> qpns;  // connections that have one of them; empty: all
  uint32_t from = 0;      // packet numbers, as Wireshark counts
  uint32_t count = std::numeric_limits<uint32_t>::max();
  bool all = false;  // fold nothing
};

// Packets of one name and one fate that one side of a connection sent, folded into one arrow.
struct Bundle {
  trace::Index connection = trace::kNoIndex;
  uint8_t side = 0;
  std::string name;
  uint64_t count = 0;
  uint64_t payload_bytes = 0;
  std::string first_psn;
  std::string last_psn;
  Tone tone = Tone::kRequest;
  bool again = false;  // sent again, all of them
  bool lost = false;   // no receiver takes any of them

  // What is said behind name and PSNs: "8192 B in all", "again".
  [[nodiscard]] std::vector<std::string> details() const;
};

// One row of a ladder: a packet, or several folded.
struct Row {
  std::vector<trace::Index> packets;  // one, or those folded
  PacketWords words;                  // of the only packet
  std::vector<Bundle> bundles;        // of those folded

  [[nodiscard]] bool folded() const { return packets.size() > 1; }
};

struct Column {
  Gid gid;
  std::optional<Qpn> qpn;
  trace::Index connection = trace::kNoIndex;  // the first that it belongs to
};

// Where a connection's arrows run: positions in Ladder::left and Ladder::right.
struct Lane {
  trace::Index connection = trace::kNoIndex;
  size_t left = 0;
  size_t right = 0;
  uint8_t left_side = 0;  // the side of the connection that stands to the left
};

struct Ladder {
  std::vector<Lane> lanes;    // in the order of the connections
  std::vector<Column> left;   // from the outermost to the innermost
  std::vector<Column> right;  // the same
  std::vector<Row> rows;

  // Null for a connection that is not in this ladder.
  [[nodiscard]] const Lane* lane_of(trace::Index connection) const;
};

struct Picture {
  std::vector<Ladder> ladders;
  std::vector<Row> strays;                // frames of no connection
  std::vector<trace::Index> selected;     // all packets that are shown, folded or not
  std::vector<trace::Index> connections;  // those chosen, whether packets of them are shown or not
};

Picture draw(const trace::Trace& trace, const Selection& selection);

}  // namespace verbena::explain
