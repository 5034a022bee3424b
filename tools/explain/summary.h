// What a capture comes to: counts for each connection, and what went wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/explain/ladder.h"
#include "tools/trace/conversation.h"

namespace verbena::explain {

struct ConnectionSummary {
  trace::Index connection = trace::kNoIndex;
  uint64_t packets = 0;
  uint64_t messages = 0;       // begun, each once: SEND, WRITE, READ, atomic, datagram
  uint64_t payload_bytes = 0;  // each byte once
  DurationNs lasted = 0;
  DurationNs longest_silence = 0;
  trace::Index after_silence = trace::kNoIndex;  // the packet that ended it

  uint64_t again = 0;   // requests and responses sent again by their sender
  uint64_t copies = 0;  // repeated by the network
  uint64_t late = 0;    // overtaken
  uint64_t gaps = 0;
  uint64_t sequence_naks = 0;
  uint64_t rnr_naks = 0;
  uint64_t fatal_naks = 0;
  uint64_t reserved = 0;       // answers with a reserved syndrome: ignored
  uint64_t not_sent = 0;       // answers to what was not sent: dropped
  uint64_t wrong_lengths = 0;  // WRITEs not as long as announced
  uint64_t timeouts = 0;
  uint64_t cnps = 0;
  uint64_t marked = 0;  // congestion experienced
  uint64_t bad_icrc = 0;
  uint64_t lost = 0;        // behind the capture's place, as its comments say
  uint64_t unanswered = 0;  // RC requests, in the end
  bool one_way = false;  // RC requests without any answer: whether they were answered is not known

  // Something went wrong, and every request was acknowledged in the end.
  bool recovered = false;
  // What went wrong, in the order of importance; empty: nothing.
  std::vector<std::string> findings;
};

// One for each connection chosen, of all its packets: what came of one that is shown may not be.
std::vector<ConnectionSummary> summarise(const trace::Trace& trace, const Picture& picture);

// "RC, 10.0.0.1 QPN 0x000011 and 10.0.0.2 QPN 0x000022, path MTU 1024".
std::string connection_text(const trace::Connection& connection);
// All about it but connection_text(), line by line; findings begin with "! ".
std::vector<std::string> summary_lines(const trace::Trace& trace, const ConnectionSummary& summary);
// "rc_send.pcap: 79 packets in 21.3 ms, 1 connection"; what is shown of it, and what was left out.
std::string capture_text(const std::string& name, const trace::Trace& trace,
                         const Picture& picture);

}  // namespace verbena::explain
