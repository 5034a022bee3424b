#include "tools/explain/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stack/wire/describe.h"
#include "stack/wire/syndrome.h"
#include "tools/explain/text.h"
#include "tools/trace/cm.h"
#include "tools/trace/wire_fate.h"

namespace verbena::explain {
namespace {

using trace::Cause;
using trace::Connection;
using trace::Index;
using trace::kNoIndex;
using trace::Place;
using trace::Trace;
using trace::TracedPacket;

bool is_refusal(const TracedPacket& traced) {
  constexpr Qpn kGsiQpn = 1;
  if (traced.packet->dest_qpn != kGsiQpn) return false;
  const auto message = trace::parse_cm(traced.packet->payload);
  return message && (message->attribute == trace::CmAttribute::kRej ||
                     (message->attribute == trace::CmAttribute::kSidrRep && message->reason != 0));
}

// Counts what happens, and remembers where it happened first.
class Counter {
 public:
  Counter(const Trace& trace, Index connection) : trace_(trace) {
    summary_.connection = connection;
  }

  void add(Index index);
  ConnectionSummary finish();

 private:
  struct First {
    Index sequence_nak = kNoIndex;
    Index rnr_nak = kNoIndex;
    Index fatal_nak = kNoIndex;
    Index reserved = kNoIndex;
    Index not_sent = kNoIndex;
    Index wrong_length = kNoIndex;
    Index timeout = kNoIndex;
    Index bad_icrc = kNoIndex;
    Index lost = kNoIndex;
    Index copy = kNoIndex;
    Index late = kNoIndex;
    Index gap = kNoIndex;
    Index implied_nak = kNoIndex;
    Index cnp = kNoIndex;
    Index marked = kNoIndex;
    Index unanswered = kNoIndex;
    Index rejected = kNoIndex;
  };

  static void count(uint64_t& counter, Index& first, Index index) {
    if (counter++ == 0) first = index;
  }
  void add_good(Index index);
  void add_request(Index index);
  [[nodiscard]] Index asked_first(Index index) const;
  void add_place(Index index);
  void add_response(Index index);
  void add_syndrome(Index index);
  void count_unanswered();
  void report();
  void find(uint64_t count, Index first, const char* once, const char* often);
  void find(const std::string& text) { summary_.findings.push_back(text); }
  [[nodiscard]] uint32_t number(Index index) const { return trace_.packets[index].number; }

  const Trace& trace_;
  ConnectionSummary summary_;
  First first_;
  Index first_packet_ = kNoIndex;
  Index last_packet_ = kNoIndex;
  uint64_t implied_naks_ = 0;
  uint64_t rejects_ = 0;
  bool responses_seen_ = false;
  struct Asked {
    Index newest = kNoIndex;
    bool acknowledged = false;
  };
  std::map<uint32_t, Asked> asked_;  // RC requests by PSN
};

void Counter::add(Index index) {
  const TracedPacket& traced = trace_.packets[index];
  ++summary_.packets;
  if (first_packet_ == kNoIndex) first_packet_ = index;
  if (last_packet_ != kNoIndex) {
    const DurationNs silence = trace::elapsed(trace_.packets[last_packet_].time, traced.time);
    if (silence > summary_.longest_silence) {
      summary_.longest_silence = silence;
      summary_.after_silence = index;
    }
  }
  last_packet_ = index;
  if (lost_on_wire(traced)) count(summary_.lost, first_.lost, index);
  if (traced.drop == DropReason::kBadIcrc) count(summary_.bad_icrc, first_.bad_icrc, index);
  if (traced.good()) add_good(index);
}

void Counter::add_good(Index index) {
  const TracedPacket& traced = trace_.packets[index];
  const OpcodeInfo& info = *traced.packet->info;
  constexpr uint8_t kEcnCe = 3;  // congestion experienced (RFC 3168)
  if (traced.packet->ecn == kEcnCe) count(summary_.marked, first_.marked, index);
  if (info.operation == Operation::kCnp) {
    count(summary_.cnps, first_.cnp, index);
    return;
  }
  add_place(index);
  const bool first_time = traced.place != Place::kAgain && traced.place != Place::kCopy;
  // What was lost or damaged before counts when it is sent again.
  const bool first_seen =
      first_time || traced.repeats == kNoIndex || !trace_.packets[traced.repeats].good();
  if (first_seen) summary_.payload_bytes += traced.payload_bytes;
  if (info.is_response()) {
    add_response(index);
    return;
  }
  if (first_time && info.starts_message()) ++summary_.messages;
  if (first_time && traced.wrong_length) count(summary_.wrong_lengths, first_.wrong_length, index);
  if (is_refusal(traced)) count(rejects_, first_.rejected, index);
  if (info.transport == Transport::kRc) add_request(index);
}

// A READ asked for again "for the rest" is the READ it was at first.
Index Counter::asked_first(Index index) const {
  while (true) {
    const TracedPacket& traced = trace_.packets[index];
    if (traced.place != Place::kAgain || traced.repeats == kNoIndex) return index;
    if (traced.packet->info->operation != Operation::kReadRequest) return index;
    if (!trace_.packets[traced.repeats].packet) return index;
    index = traced.repeats;
  }
}

void Counter::add_request(Index index) {
  const TracedPacket& traced = trace_.packets[index];
  Asked& asked = asked_[trace_.packets[asked_first(index)].packet->psn.value()];
  // Numbers are used again after 2^24 of them.
  if (traced.place == Place::kNew || traced.place == Place::kRestart) asked = {};
  asked.newest = index;
  if (traced.answered_by == kNoIndex) return;
  const wire::ParsedPacket& answer = *trace_.packets[traced.answered_by].packet;
  const bool refused =
      answer.info->has_aeth && syndrome_kind(answer.syndrome) != SyndromeKind::kAck;
  if (!refused || answer.psn != traced.packet->psn) asked.acknowledged = true;
}

void Counter::add_place(Index index) {
  const TracedPacket& traced = trace_.packets[index];
  if (traced.missing > 0) count(summary_.gaps, first_.gap, index);
  switch (traced.place) {
    case Place::kAgain:
      ++summary_.again;
      break;
    case Place::kCopy:
      count(summary_.copies, first_.copy, index);
      break;
    case Place::kLate:
      count(summary_.late, first_.late, index);
      break;
    case Place::kNew:
    case Place::kRestart:
    case Place::kUnordered:
      break;
  }
  if (traced.place != Place::kAgain || traced.continues) return;
  if (traced.cause == Cause::kTimeout) count(summary_.timeouts, first_.timeout, index);
  if (traced.cause == Cause::kImpliedNak) count(implied_naks_, first_.implied_nak, index);
}

void Counter::add_response(Index index) {
  responses_seen_ = true;
  const TracedPacket& traced = trace_.packets[index];
  if (traced.place == Place::kCopy) return;  // it says nothing new
  switch (traced.unheeded) {
    case trace::Unheeded::kNo:
      add_syndrome(index);
      return;
    case trace::Unheeded::kReserved:
      count(summary_.reserved, first_.reserved, index);
      return;
    case trace::Unheeded::kNotSent:
      count(summary_.not_sent, first_.not_sent, index);
      return;
  }
}

void Counter::add_syndrome(Index index) {
  const wire::ParsedPacket& packet = *trace_.packets[index].packet;
  if (!packet.info->has_aeth) return;
  const SyndromeKind kind = syndrome_kind(packet.syndrome);
  if (kind == SyndromeKind::kRnrNak) count(summary_.rnr_naks, first_.rnr_nak, index);
  if (kind != SyndromeKind::kNak) return;
  if (packet.syndrome == nak_syndrome(NakCode::kPsnSequence)) {
    count(summary_.sequence_naks, first_.sequence_nak, index);
  } else {
    count(summary_.fatal_naks, first_.fatal_nak, index);
  }
}

void Counter::count_unanswered() {
  const Connection& connection = trace_.connections[summary_.connection];
  const bool only_requests = !responses_seen_ && connection.pairing == trace::Pairing::kOneSided;
  if (connection.service != trace::Service::kRc || summary_.fatal_naks > 0) return;
  // A capture of one direction cannot know, unless something was sent again in vain.
  summary_.one_way = only_requests && summary_.timeouts == 0 && !asked_.empty();
  if (summary_.one_way) return;
  if (responses_seen_ && connection.pairing == trace::Pairing::kOneSided) return;
  for (const auto& [psn, asked] : asked_) {
    if (asked.acknowledged) continue;
    first_.unanswered = std::min(first_.unanswered, asked.newest);
    ++summary_.unanswered;
  }
}

void Counter::find(uint64_t count, Index first, const char* once, const char* often) {
  if (count == 0) return;
  find(count == 1 ? fmt::format("{} (packet {})", once, number(first))
                  : fmt::format("{} times {} (first: packet {})", count, often, number(first)));
}

void Counter::report() {
  if (first_.fatal_nak != kNoIndex) {
    const wire::ParsedPacket& packet = *trace_.packets[first_.fatal_nak].packet;
    find(fmt::format("{} (packet {}): the request failed, and the QP with it",
                     wire::nak_name(packet.syndrome), number(first_.fatal_nak)));
  }
  if (summary_.unanswered > 0) {
    find(fmt::format("{} not acknowledged when the capture ends (packet {})",
                     count_text(summary_.unanswered, "request packet"), number(first_.unanswered)));
  }
  find(rejects_, first_.rejected, "the connection manager refused",
       "the connection manager refused");
  find(summary_.reserved, first_.reserved,
       "an answer had a reserved syndrome, which the requester ignores",
       "an answer had a reserved syndrome, which the requester ignores");
  find(summary_.not_sent, first_.not_sent, "an answer was to a PSN that was not sent, and dropped",
       "an answer was to a PSN that was not sent, and dropped");
  find(summary_.wrong_lengths, first_.wrong_length, "a WRITE was not as long as it announced",
       "a WRITE was not as long as it announced");
  find(summary_.bad_icrc, first_.bad_icrc, "a frame was damaged on its way, wrong ICRC",
       "a frame was damaged on its way, wrong ICRC");
  find(summary_.lost, first_.lost,
       "the wire lost or damaged a packet, as the capture's comment says",
       "the wire lost or damaged a packet, as the capture's comments say");
  find(summary_.sequence_naks, first_.sequence_nak,
       "the responder missed a PSN and answered NAK sequence error",
       "the responder missed a PSN and answered NAK sequence error");
  if (summary_.sequence_naks == 0) {
    find(summary_.gaps, first_.gap, "PSNs were missing", "PSNs were missing");
  }
  find(summary_.rnr_naks, first_.rnr_nak, "the responder had no receive posted, RNR NAK",
       "the responder had no receive posted, RNR NAK");
  find(implied_naks_, first_.implied_nak, "an answer was passed over and asked for again",
       "an answer was passed over and asked for again");
  find(summary_.timeouts, first_.timeout, "the requester's timer ran out",
       "the requester's timer ran out");
  find(summary_.copies, first_.copy, "a frame was repeated on its way or captured twice",
       "a frame was repeated on its way or captured twice");
  find(summary_.late, first_.late, "a packet was overtaken on its way",
       "a packet was overtaken on its way");
  find(summary_.marked, first_.marked, "a switch marked a packet: congestion",
       "a switch marked a packet: congestion");
  find(summary_.cnps, first_.cnp, "a CNP asked for slower sending",
       "a CNP asked for slower sending");
}

ConnectionSummary Counter::finish() {
  if (first_packet_ != kNoIndex) {
    summary_.lasted =
        trace::elapsed(trace_.packets[first_packet_].time, trace_.packets[last_packet_].time);
  }
  count_unanswered();
  report();
  const Connection& connection = trace_.connections[summary_.connection];
  summary_.recovered = !summary_.findings.empty() && summary_.unanswered == 0 &&
                       summary_.fatal_naks == 0 && responses_seen_ && summary_.messages > 0 &&
                       connection.service == trace::Service::kRc &&
                       connection.pairing != trace::Pairing::kOneSided;
  return std::move(summary_);
}

// How the two queue pairs were found to belong together; empty when packets say so themselves.
std::string pairing_text(const Connection& connection) {
  switch (connection.pairing) {
    case trace::Pairing::kPorts:
      return "the QPs belong together because their UDP source ports are the same";
    case trace::Pairing::kOnlyOnes:
      return "the QPs belong together because these hosts have no others here";
    case trace::Pairing::kOneSided:
      return "packets of one direction only: the QPN of their sender is not in them";
    case trace::Pairing::kHeaders:
    case trace::Pairing::kCm:
    case trace::Pairing::kPsns:
      break;
  }
  return "";
}

std::string counts_text(const ConnectionSummary& summary) {
  std::string text = count_text(summary.packets, "packet");
  if (summary.lasted > 0) text += " in " + duration_text(summary.lasted);
  if (summary.messages > 0) text += ", " + count_text(summary.messages, "message");
  if (summary.payload_bytes > 0) text += fmt::format(", {} B of payload", summary.payload_bytes);
  if (summary.again > 0) text += fmt::format(", {} sent again", summary.again);
  if (summary.sequence_naks > 0) text += ", " + count_text(summary.sequence_naks, "sequence NAK");
  if (summary.fatal_naks > 0) text += ", " + count_text(summary.fatal_naks, "other NAK");
  if (summary.rnr_naks > 0) text += ", " + count_text(summary.rnr_naks, "RNR NAK");
  if (summary.cnps > 0) text += ", " + count_text(summary.cnps, "CNP");
  return text;
}

// "packets 6 to 7 of 10 are shown".
std::string shown_text(const Trace& trace, const std::vector<Index>& selected) {
  const size_t all = trace.packets.size();
  if (selected.empty()) return fmt::format("none of {} packets is shown", all);
  const uint32_t first = trace.packets[selected.front()].number;
  const uint32_t last = trace.packets[selected.back()].number;
  // With other frames between them the numbers are not those of the packets.
  const bool counted = trace.packets.back().number == all;
  if (!counted || last - first + 1 != selected.size()) {
    return fmt::format("{} of {} packets are shown", selected.size(), all);
  }
  return first == last ? fmt::format("packet {} of {} is shown", first, all)
                       : fmt::format("packets {} to {} of {} are shown", first, last, all);
}

}  // namespace

std::vector<ConnectionSummary> summarise(const Trace& trace, const Picture& picture) {
  std::vector<ConnectionSummary> summaries;
  for (const Index connection : picture.connections) {
    Counter counter(trace, connection);
    for (const Index i : trace.connections[connection].packets) counter.add(i);
    summaries.push_back(counter.finish());
  }
  return summaries;
}

std::string connection_text(const Connection& connection) {
  std::string text =
      fmt::format("{}, {} and {}", service_name(connection.service),
                  endpoint_text(connection.sides[0]), endpoint_text(connection.sides[1]));
  if (connection.path_mtu_known) text += fmt::format(", path MTU {}", connection.path_mtu);
  return text;
}

std::vector<std::string> summary_lines(const Trace& trace, const ConnectionSummary& summary) {
  std::vector<std::string> lines = {counts_text(summary)};
  if (summary.after_silence != kNoIndex) {
    lines.push_back(fmt::format("longest silence {}, before packet {}",
                                duration_text(summary.longest_silence),
                                trace.packets[summary.after_silence].number));
  }
  const std::string pairing = pairing_text(trace.connections[summary.connection]);
  if (!pairing.empty()) lines.push_back(pairing);
  for (const std::string& finding : summary.findings) lines.push_back("! " + finding);
  if (summary.one_way) {
    lines.emplace_back("the capture holds no answers: what became of the requests is not known");
  } else if (summary.findings.empty()) {
    lines.emplace_back("nothing went wrong");
  }
  if (summary.recovered) lines.emplace_back("every request was acknowledged in the end");
  return lines;
}

std::string capture_text(const std::string& name, const Trace& trace, const Picture& picture) {
  std::string text = name + ": " + count_text(trace.packets.size(), "packet");
  if (trace.packets.size() > 1) {
    text += " in " +
            duration_text(trace::elapsed(trace.packets.front().time, trace.packets.back().time));
  }
  text += ", " + count_text(trace.connections.size(), "connection");
  if (picture.selected.size() < trace.packets.size()) {
    text += "; " + shown_text(trace, picture.selected);
  }
  if (trace.other_frames > 0) {
    text += fmt::format("; {} left out that {} no RoCEv2", count_text(trace.other_frames, "frame"),
                        trace.other_frames == 1 ? "is" : "are");
  }
  if (trace.rocev1_frames > 0) {
    text += fmt::format("; {} of RoCEv1 left out", count_text(trace.rocev1_frames, "frame"));
  }
  return text;
}

}  // namespace verbena::explain
