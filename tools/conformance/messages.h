// The requests of one side of a connection, put together to messages: what its application posted.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/trace/conversation.h"

namespace verbena::conformance {

struct Message {
  Operation operation = Operation::kSend;
  bool has_imm = false;
  bool solicited = false;
  bool complete = false;  // its last packet was captured
  uint32_t imm = 0;       // as a number
  Psn first_psn;
  Psn last_psn;     // READ: of the last response
  uint64_t va = 0;  // WRITE, READ
  Key rkey = 0;
  uint32_t length = 0;            // of a message that is not complete: of what was captured
  uint32_t announced = 0;         // WRITE: what its RETH says
  std::vector<uint32_t> packets;  // numbers, one for each PSN; READ: the request
  uint32_t first_packet = 0;      // the lowest number of any of its packets
  uint32_t last_packet = 0;       // the number of the first one that ended it

  [[nodiscard]] bool is_read() const { return operation == Operation::kReadRequest; }
  [[nodiscard]] bool takes_recv() const { return operation == Operation::kSend || has_imm; }
  [[nodiscard]] bool holds(Psn psn) const { return !psn.before(first_psn) && !psn.after(last_psn); }
};

// Requests of one side, by PSN.
struct Requests {
  std::vector<Message> messages;  // in the order of their PSNs
  Psn first_psn;
  bool any = false;
  // The first captured request does not begin a message, or a PSN between two others is nowhere in
  // the capture.
  bool begins_inside = false;
  bool has_hole = false;
};

using Packets = std::vector<const trace::TracedPacket*>;

// The first packet of the first message of a connection: what is before it belongs to messages
// that began before the capture. 1 when it is the connection's first.
uint32_t first_message(const trace::Trace& trace, const trace::Connection& connection);

// Good packets of a side from number `first` on, in the order of the capture.
Packets packets_of(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                   uint32_t first);

// `packets` are those of one side.
Requests requests_of(const Packets& packets);

}  // namespace verbena::conformance
