#include "tools/conformance/arrivals.h"

#include <algorithm>

#include "stack/wire/syndrome.h"
#include "tools/trace/wire_fate.h"

namespace verbena::conformance {
namespace {

using trace::Index;
using trace::TracedPacket;

bool is_acknowledge(const TracedPacket& traced, SyndromeKind kind) {
  return traced.packet->info->operation == Operation::kAcknowledge &&
         syndrome_kind(traced.packet->syndrome) == kind;
}

bool is_sequence_nak(const TracedPacket& traced) {
  return is_acknowledge(traced, SyndromeKind::kNak) &&
         traced.packet->syndrome == nak_syndrome(NakCode::kPsnSequence);
}

bool is_read(const TracedPacket& traced) {
  return traced.packet->info->operation == Operation::kReadRequest;
}

bool in_span(const TracedPacket& read, Psn psn) {
  const int32_t offset = psn - read.packet->psn;
  return offset >= 0 && static_cast<uint32_t>(offset) < read.psn_count;
}

class Arrivals {
 public:
  Arrivals(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
           NetworkSection& network)
      : trace_(trace), connection_(connection), side_(side), network_(network) {}

  void run() {
    for (const Index index : connection_.packets) {
      const TracedPacket& traced = trace_.packets[index];
      if (!traced.good() || traced.packet->info->operation == Operation::kCnp) continue;
      const bool response = traced.packet->info->is_response();
      if (traced.side != side_ && !response) request(traced);
      if (traced.side == side_ && response) answer(traced);
      if (traced.side == side_ && !response) sent_again(index);
    }
    for (const Lost& lost : lost_) network_.lost.push_back(lost.packet->number);
    std::sort(network_.lost.begin(), network_.lost.end());
  }

 private:
  struct Lost {
    const TracedPacket* packet;
    const TracedPacket* ahead;  // the first that arrived behind the gap; null: not known
  };

  void request(const TracedPacket& traced);
  void answer(const TracedPacket& traced);
  void go_back(Psn psn, bool lost);
  void came_late(Psn up_to);
  void sent_again(Index index);
  void lost_read(const TracedPacket& again);

  const trace::Trace& trace_;
  const trace::Connection& connection_;
  unsigned side_;
  NetworkSection& network_;

  // A responder that got all that was captured, until its answers tell otherwise.
  bool started_ = false;
  Psn expected_;
  std::vector<const TracedPacket*> accepted_;
  std::vector<Lost> lost_;
  const TracedPacket* ahead_ = nullptr;  // the first one behind the gap
};

void Arrivals::request(const TracedPacket& traced) {
  if (is_read(traced)) lost_read(traced);
  const Psn psn = traced.packet->psn;
  if (!started_) expected_ = psn;
  started_ = true;
  if (psn == expected_) {
    expected_ += traced.psn_count;
    accepted_.push_back(&traced);
    ahead_ = nullptr;
  } else if (psn.after(expected_) && ahead_ == nullptr) {
    ahead_ = &traced;
  }
}

// The responder still expects `psn`: what was accepted from there on was not.
void Arrivals::go_back(Psn psn, bool lost) {
  const auto first = std::find_if(accepted_.begin(), accepted_.end(), [&](const auto* packet) {
    return !packet->packet->psn.before(psn);
  });
  if (first == accepted_.end()) return;
  ahead_ = first + 1 != accepted_.end() ? *(first + 1) : nullptr;
  if (lost) lost_.push_back({*first, ahead_});
  accepted_.erase(first, accepted_.end());
  expected_ = psn;
}

// The responder is farther than was thought: what was taken for lost came late.
void Arrivals::came_late(Psn up_to) {
  for (auto lost = lost_.begin(); lost != lost_.end();) {
    if (lost->ahead == nullptr || !lost->packet->packet->psn.before(up_to)) {
      ++lost;
      continue;
    }
    network_.late[lost->packet->number] = lost->ahead->number;
    lost = lost_.erase(lost);
  }
  expected_ = up_to;
}

void Arrivals::answer(const TracedPacket& traced) {
  const Psn psn = traced.packet->psn;
  if (is_acknowledge(traced, SyndromeKind::kRnrNak)) go_back(psn, false);
  if (!is_sequence_nak(traced) || !started_) return;
  if (psn.before(expected_)) {
    go_back(psn, true);
  } else if (psn.after(expected_) || ahead_ == nullptr) {
    came_late(psn);
  }
}

// A READ asked for again, of which nothing was answered, did not arrive the first time.
void Arrivals::lost_read(const TracedPacket& again) {
  if (again.repeats == trace::kNoIndex || again.place != trace::Place::kAgain) return;
  const TracedPacket& before = trace_.packets[again.repeats];
  if (!before.good() || !is_read(before)) return;
  for (const Index index : connection_.packets) {
    const TracedPacket& answer = trace_.packets[index];
    if (answer.number <= before.number || answer.number >= again.number) continue;
    if (answer.side != side_ || !answer.good() || !answer.packet->info->is_response()) continue;
    if (in_span(before, answer.packet->psn)) return;
  }
  lost_.push_back({&before, nullptr});
}

// Sent again because nothing was heard: answers that the capture has did not arrive.
void Arrivals::sent_again(Index index) {
  const TracedPacket& again = trace_.packets[index];
  if (again.place != trace::Place::kAgain || again.cause != trace::Cause::kTimeout) return;
  for (const Index before : connection_.packets) {
    const TracedPacket& answer = trace_.packets[before];
    if (answer.number >= again.number) break;
    if (answer.side == side_ || !answer.good() || !answer.packet->info->is_response()) continue;
    const Psn psn = answer.packet->psn;
    const bool tells = is_acknowledge(answer, SyndromeKind::kAck) ? !psn.before(again.packet->psn)
                                                                  : psn == again.packet->psn;
    const bool known = std::any_of(lost_.begin(), lost_.end(),
                                   [&](const Lost& lost) { return lost.packet == &answer; });
    if (tells && !known && !is_acknowledge(answer, SyndromeKind::kRnrNak)) {
      lost_.push_back({&answer, nullptr});
    }
  }
}

bool is_told(const trace::Trace& trace, const trace::Connection& connection) {
  return std::any_of(connection.packets.begin(), connection.packets.end(),
                     [&](Index index) { return !fate_of(trace.packets[index]).empty(); });
}

void read_fates(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                NetworkSection& network) {
  for (const Index index : connection.packets) {
    const TracedPacket& traced = trace.packets[index];
    if (traced.side == side) continue;
    if (lost_on_wire(traced)) network.lost.push_back(traced.number);
    if (doubled_on_wire(traced)) network.repeated.push_back(traced.number);
  }
}

// A requester that went on with new requests when a NAK had been captured, and then went back for
// it, got it no earlier; nor what was captured behind the NAK.
void delay_naks(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                NetworkSection& network) {
  const TracedPacket* newest = nullptr;  // request of this side
  Index nak_index = trace::kNoIndex;     // the last one that was looked at
  for (const Index index : connection.packets) {
    const TracedPacket& traced = trace.packets[index];
    if (!traced.good() || traced.side != side || traced.packet->info->is_response()) continue;
    const bool went_back =
        traced.cause == trace::Cause::kSequenceNak && traced.cause_packet != trace::kNoIndex;
    if (went_back && traced.cause_packet != nak_index && newest != nullptr) {
      nak_index = traced.cause_packet;
      const TracedPacket& nak = trace.packets[nak_index];
      for (const Index other : connection.packets) {
        const TracedPacket& answer = trace.packets[other];
        if (answer.number < nak.number || answer.number > newest->number) continue;
        if (answer.side != side) network.late.emplace(answer.number, newest->number);
      }
    }
    newest = &traced;
  }
}

}  // namespace

void find_arrivals(const trace::Trace& trace, const trace::Connection& connection, unsigned side,
                   NetworkSection& network) {
  if (is_told(trace, connection)) {
    read_fates(trace, connection, side, network);
  } else {
    Arrivals(trace, connection, side, network).run();
  }
  delay_naks(trace, connection, side, network);
}

}  // namespace verbena::conformance
