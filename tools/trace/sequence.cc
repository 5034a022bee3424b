#include "tools/trace/sequence.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "stack/base/bytes.h"
#include "stack/wire/icrc.h"
#include "stack/wire/syndrome.h"
#include "tools/trace/path_mtu.h"
#include "tools/trace/wire_fate.h"

namespace verbena::trace {
namespace {

// A PSN counted on beyond 24 bits.
using Sequence = int64_t;

// No timer of those in use is that short.
constexpr DurationNs kShorterThanTimers = 100'000;

// A request packet, by its first PSN. Sent again, it takes the place of the one before.
struct Request {
  Index packet = kNoIndex;  // the newest transmission
  uint32_t count = 1;       // PSNs
  uint32_t received = 0;    // READ: responses in order so far
  uint32_t seen = 0;        // READ: the newest response, from 1
  bool own_answer = false;  // READ, atomic: completed by nothing but its own responses
  bool done = false;
  // WRITE: what is missing behind this packet of what the RETH announced; negative when there is
  // more. Nothing when the beginning was not seen.
  std::optional<int64_t> write_left;

  // READ asked for again: the READ before it, whose responses may still be on their way.
  Index older = kNoIndex;
  Sequence older_first = 0;
  uint32_t older_count = 0;
  uint32_t older_seen = 0;
};

// A reason to send again, from `seq` on: what the next repetition may be put down to.
struct Trouble {
  Cause cause = Cause::kNone;
  Index packet = kNoIndex;
  Sequence seq = 0;
};

// What one side asked for and how far it was answered.
struct Requester {
  bool started = false;
  Psn next;                 // after the newest request
  Sequence next_seq = 0;    // the same
  Sequence unanswered = 0;  // the oldest PSN that no response covers
  std::map<Sequence, Request> requests;
  std::unordered_map<Sequence, Index> responses;  // the newest of each PSN
  Index last_response = kNoIndex;
  Index last_sequence_nak = kNoIndex;
  Index last_rnr_nak = kNoIndex;
  std::unordered_map<uint32_t, Index> damaged;  // frames with a wrong ICRC, by PSN

  // Not acted upon yet, in the order of the capture. Of one that pipelines there may be several: it
  // still repeats for the first NAK when the second is on its way.
  std::vector<Trouble> troubles;
  // The repetition that is going on: where it continues, and its cause.
  Index burst_packet = kNoIndex;
  Sequence burst_next = 0;

  Index last_request = kNoIndex;
  Timestamp last_answer = 0;
  // Request packets that passed a gap and have not been seen to have a consequence.
  Index gap_packet = kNoIndex;
  Psn gap_psn;
};

bool has_ipv4_id(const wire::ParsedPacket& packet) {
  return packet.source_gid.is_ipv4() && packet.ip.size() > 6;
}

uint16_t ipv4_id(const wire::ParsedPacket& packet) {
  return load_be16(packet.ip.data() + 4);
}

// The ICRC covers all that a router leaves as it is.
bool same_frame(const TracedPacket& a, const TracedPacket& b) {
  const std::span<const uint8_t> x = a.packet->ip;
  const std::span<const uint8_t> y = b.packet->ip;
  if (x.size() != y.size() || a.cut || b.cut || x.size() < wire::kIcrcBytes) return false;
  return std::equal(x.end() - wire::kIcrcBytes, x.end(), y.end() - wire::kIcrcBytes);
}

bool is_refusal(const wire::ParsedPacket& response) {
  return response.info->has_aeth && syndrome_kind(response.syndrome) != SyndromeKind::kAck;
}

bool is_reserved(const wire::ParsedPacket& response) {
  if (!response.info->has_aeth) return false;
  const SyndromeKind kind = syndrome_kind(response.syndrome);
  return kind == SyndromeKind::kReserved ||
         (kind == SyndromeKind::kNak &&
          syndrome_value(response.syndrome) > static_cast<uint8_t>(NakCode::kRemoteOperational));
}

Unheeded unheeded(const Requester& side, const wire::ParsedPacket& response) {
  if (is_reserved(response)) return Unheeded::kReserved;
  // A damaged request has been sent, too.
  const bool sent = !side.started || response.psn.before(side.next) ||
                    side.damaged.contains(response.psn.value());
  return sent ? Unheeded::kNo : Unheeded::kNotSent;
}

class Sequencer {
 public:
  Sequencer(Trace& trace, Connection& connection) : trace_(trace), connection_(connection) {}

  void run() {
    for (const Index i : connection_.packets) {
      TracedPacket& traced = trace_.packets[i];
      if (!traced.packet || traced.packet->info->operation == Operation::kCnp) continue;
      if (traced.drop) {
        if (!traced.packet->info->is_response()) {
          sides_[traced.side].damaged[traced.packet->psn.value()] = i;
        }
      } else if (traced.packet->info->is_response()) {
        response(i);
      } else {
        request(i);
      }
    }
  }

 private:
  using Requests = std::map<Sequence, Request>;

  void request(Index index);
  void new_request(Index index, Sequence seq);
  void old_request(Index index, Sequence seq);
  void sent_again(Index index, Sequence seq);
  void believe(const Requester& side, Index index, Cause told);
  [[nodiscard]] std::optional<DurationNs> unheard(const Requester& side, Index index) const;
  [[nodiscard]] bool is_copy(const Requester& side, Index before, Index now) const;
  void remember(Index index, Sequence seq);
  void add_up_write(Index index, Sequence seq);
  void note_missing(Requester& side, Index index, int32_t missing);
  void damage_repaired(Requester& side, Index index);

  void response(Index index);
  void place_response(Requester& side, Index index, Sequence seq, const Request* request);
  void read_response(Index index, Sequence seq, Requests::iterator request);
  bool late_read_response(Index index, Sequence seq, Requests::iterator request);
  void suspect_implied_nak(Requester& side, Index index, Sequence missing);
  [[nodiscard]] bool answers_at_once(const Requester& side, Index index) const;
  [[nodiscard]] bool explains(const Trouble& trouble, Index index) const;
  [[nodiscard]] std::optional<Trouble> trouble_behind(const Requester& side, Index index,
                                                      Sequence seq, bool continues) const;
  void acknowledge(Requester& side, Index index, Sequence up_to);
  void refuse(Requester& side, Index index);
  [[nodiscard]] Requests::iterator covering(Requester& side, Sequence seq) const;
  void answered(const Request& request, Index by);

  TracedPacket& at(Index index) { return trace_.packets[index]; }
  [[nodiscard]] const TracedPacket& at(Index index) const { return trace_.packets[index]; }

  Trace& trace_;
  Connection& connection_;
  std::array<Requester, 2> sides_;
};

// The request whose PSNs, or those of its responses, hold `seq`.
Sequencer::Requests::iterator Sequencer::covering(Requester& side, Sequence seq) const {
  auto found = side.requests.upper_bound(seq);
  if (found == side.requests.begin()) return side.requests.end();
  --found;
  return seq < found->first + found->second.count ? found : side.requests.end();
}

void Sequencer::request(Index index) {
  TracedPacket& traced = at(index);
  Requester& side = sides_[traced.side];
  const wire::ParsedPacket& packet = *traced.packet;
  if (packet.info->operation == Operation::kReadRequest) {
    traced.psn_count = read_psn_count(packet.dma_length, connection_.path_mtu);
  }
  // Farther off than any window: a READ of 1 GiB at the smallest path MTU takes 2^22 PSNs, usual
  // ones far less.
  constexpr int32_t kFar = 1 << 20;
  const int32_t distance = side.started ? packet.psn - side.next : 0;
  if (!side.started || std::abs(distance) >= kFar) {
    traced.place = side.started ? Place::kRestart : Place::kNew;
    // Numbers that were never used, so that nothing old is taken for new.
    side.next_seq += side.started ? Sequence{1} << 25 : 0;
    side.unanswered = side.next_seq;
    side.started = true;
    side.next = packet.psn;
    new_request(index, side.next_seq);
  } else if (distance >= 0) {
    traced.place = Place::kNew;
    note_missing(side, index, distance);
    new_request(index, side.next_seq + distance);
  } else {
    old_request(index, side.next_seq + distance);
  }
  side.last_request = index;
}

void Sequencer::note_missing(Requester& side, Index index, int32_t missing) {
  if (missing <= 0) return;
  at(index).missing = static_cast<uint32_t>(missing);
  side.gap_packet = index;
  side.gap_psn = side.next;
}

void Sequencer::new_request(Index index, Sequence seq) {
  TracedPacket& traced = at(index);
  Requester& side = sides_[traced.side];
  side.next = traced.packet->psn + traced.psn_count;
  side.next_seq = seq + traced.psn_count;
  side.burst_packet = kNoIndex;
  remember(index, seq);
}

void Sequencer::remember(Index index, Sequence seq) {
  const TracedPacket& traced = at(index);
  Requester& side = sides_[traced.side];
  const Operation operation = traced.packet->info->operation;
  // A READ asked for again as a whole replaces what was asked for in parts.
  side.requests.erase(side.requests.upper_bound(seq),
                      side.requests.lower_bound(seq + traced.psn_count));
  Request& request = side.requests[seq];
  request.packet = index;
  request.count = traced.psn_count;
  request.received = request.seen = 0;
  request.own_answer = operation == Operation::kReadRequest || operation == Operation::kAtomic;
  add_up_write(index, seq);
  damage_repaired(side, index);
}

void Sequencer::add_up_write(Index index, Sequence seq) {
  TracedPacket& traced = at(index);
  const OpcodeInfo& info = *traced.packet->info;
  auto& requests = sides_[traced.side].requests;
  std::optional<int64_t>& left = requests[seq].write_left;
  left.reset();
  if (info.operation != Operation::kWrite) return;
  if (info.starts_message()) {
    left = traced.packet->dma_length;
  } else if (const auto before = requests.find(seq - 1); before != requests.end()) {
    left = before->second.write_left;
  }
  if (!left) return;
  *left -= traced.payload_bytes;
  traced.wrong_length = info.ends_message() && *left != 0;
}

// A good packet with the PSN of a damaged one is what came of it, unless a NAK did before.
void Sequencer::damage_repaired(Requester& side, Index index) {
  if (side.damaged.empty()) return;
  const auto found = side.damaged.find(at(index).packet->psn.value());
  if (found == side.damaged.end()) return;
  TracedPacket& damaged = at(found->second);
  if (damaged.consequence == kNoIndex) damaged.consequence = index;
  if (at(index).repeats == kNoIndex) at(index).repeats = found->second;
  side.damaged.erase(found);
}

void Sequencer::old_request(Index index, Sequence seq) {
  TracedPacket& traced = at(index);
  Requester& side = sides_[traced.side];
  const auto before = covering(side, seq);
  const bool exact = before != side.requests.end() && before->first == seq;
  if (before != side.requests.end()) traced.repeats = before->second.packet;
  if (exact && is_copy(side, before->second.packet, index)) {
    traced.place = Place::kCopy;
    return;
  }
  const bool was_missing = before == side.requests.end() && seq > side.requests.begin()->first &&
                           !side.damaged.contains(traced.packet->psn.value());
  if (was_missing && !trouble_behind(side, index, seq, false) && side.burst_next != seq) {
    traced.place = Place::kLate;
  } else {
    sent_again(index, seq);
  }
  if (before == side.requests.end() || traced.packet->info->operation != Operation::kReadRequest) {
    remember(index, seq);
    return;
  }
  const Request older = before->second;
  const Sequence older_first = before->first;
  if (seq > older_first) {
    // The rest of a READ: what came before it is complete.
    before->second.count = static_cast<uint32_t>(seq - older_first);
    before->second.done = true;
  }
  remember(index, seq);
  Request& request = side.requests[seq];
  request.older = older.packet;
  request.older_first = older_first;
  request.older_count = older.count;
  request.older_seen = older.seen;
}

// The same bytes again. A sender that counts its packets in the IPv4 identification never makes
// two alike; of others, what comes again soon and without a reason is no retransmission.
bool Sequencer::is_copy(const Requester& side, Index before, Index now) const {
  constexpr DurationNs kSoon = 1'000'000;
  const TracedPacket& first = at(before);
  const TracedPacket& second = at(now);
  if (!same_frame(first, second)) return false;
  if (has_ipv4_id(*first.packet) && side.last_request != kNoIndex && side.last_request != before) {
    if (ipv4_id(*at(side.last_request).packet) != ipv4_id(*first.packet)) return true;
  }
  return side.troubles.empty() && elapsed(first.time, second.time) < kSoon;
}

void Sequencer::sent_again(Index index, Sequence seq) {
  TracedPacket& traced = at(index);
  Requester& side = sides_[traced.side];
  traced.place = Place::kAgain;
  const bool continues = side.burst_packet != kNoIndex && seq == side.burst_next;
  const auto told = told_cause(traced);
  const auto behind = trouble_behind(side, index, seq, continues);
  if (behind && behind->cause == told.value_or(behind->cause)) {
    traced.cause = behind->cause;
    traced.cause_packet = behind->packet;
    traced.waited = elapsed(at(behind->packet).time, traced.time);
  } else if (continues && (!told || at(side.burst_packet).cause == *told)) {
    traced.continues = true;
    traced.cause = at(side.burst_packet).cause;
    traced.cause_packet = at(side.burst_packet).cause_packet;
  } else if (told) {
    believe(side, index, *told);
  } else if (answers_at_once(side, index)) {
    traced.cause = Cause::kImpliedNak;
    traced.cause_packet = side.last_response;
  } else {
    const auto waited = unheard(side, index);
    const bool too_short = waited && *waited < kShorterThanTimers;
    traced.cause = too_short ? Cause::kNone : Cause::kTimeout;
    traced.waited = waited.value_or(0);
  }
  // What came before the reason has no consequence any more.
  if (!traced.continues) {
    std::erase_if(side.troubles, [&](const Trouble& trouble) {
      return traced.cause_packet == kNoIndex || trouble.packet <= traced.cause_packet;
    });
  }
  side.burst_packet = index;
  side.burst_next = seq + traced.psn_count;
}

// The time since anything was sent or heard that this repetition could have waited for.
std::optional<DurationNs> Sequencer::unheard(const Requester& side, Index index) const {
  const TracedPacket& traced = at(index);
  Timestamp heard = side.last_answer;
  if (traced.repeats != kNoIndex) heard = std::max(heard, at(traced.repeats).time);
  return heard != 0 ? std::optional(elapsed(heard, traced.time)) : std::nullopt;
}

// The sender says why; what made it so may be long ago, or not in the capture.
void Sequencer::believe(const Requester& side, Index index, Cause told) {
  TracedPacket& traced = at(index);
  traced.cause = told;
  if (told == Cause::kSequenceNak) traced.cause_packet = side.last_sequence_nak;
  if (told == Cause::kRnr) traced.cause_packet = side.last_rnr_nak;
  if (told == Cause::kImpliedNak) traced.cause_packet = side.last_response;
  if (traced.cause_packet != kNoIndex) {
    traced.waited = elapsed(at(traced.cause_packet).time, traced.time);
  } else if (told == Cause::kTimeout) {
    traced.waited = unheard(side, index).value_or(0);
  }
}

// Only a READ or an atomic is asked for again because an answer passed over its own.
bool has_own_answer(const TracedPacket& request) {
  const Operation operation = request.packet->info->operation;
  return operation == Operation::kReadRequest || operation == Operation::kAtomic;
}

// A NAK is waited for; an implied one is acted upon at once, or not seen as such, and then the
// timer runs out.
bool Sequencer::explains(const Trouble& trouble, Index index) const {
  constexpr DurationNs kAtOnce = 2'000'000;
  if (trouble.cause != Cause::kImpliedNak) return true;
  return has_own_answer(at(index)) && elapsed(at(trouble.packet).time, at(index).time) < kAtOnce;
}

// Why `seq` is sent again: the newest NAK that asks for just that. One that asks for an earlier PSN
// may be it too, when the first packets of the repetition are not in the capture; none that asks
// for a later one.
std::optional<Trouble> Sequencer::trouble_behind(const Requester& side, Index index, Sequence seq,
                                                 bool continues) const {
  std::optional<Trouble> before;
  for (auto trouble = side.troubles.rbegin(); trouble != side.troubles.rend(); ++trouble) {
    if (!explains(*trouble, index)) continue;
    if (trouble->seq == seq) return *trouble;
    if (!before && trouble->seq < seq && !continues) before = *trouble;
  }
  return before;
}

// The response before it made the sender repeat, perhaps as the second one
// that it could not use.
bool Sequencer::answers_at_once(const Requester& side, Index index) const {
  return has_own_answer(at(index)) && side.last_response != kNoIndex &&
         elapsed(at(side.last_response).time, at(index).time) < kShorterThanTimers;
}

void Sequencer::suspect_implied_nak(Requester& side, Index index, Sequence missing) {
  if (!side.troubles.empty()) return;
  side.troubles.push_back({Cause::kImpliedNak, index, missing});
}

void Sequencer::answered(const Request& request, Index by) {
  TracedPacket& asked = at(request.packet);
  if (asked.answered_by == kNoIndex || is_refusal(*at(asked.answered_by).packet)) {
    asked.answered_by = by;
  }
}

// A response says that all requests up to it were carried out, but for READs and atomics, which
// their own responses end (RC-REQ-10, RC-REQ-11).
void Sequencer::acknowledge(Requester& side, Index index, Sequence up_to) {
  TracedPacket& traced = at(index);
  auto request = side.requests.lower_bound(side.unanswered);
  for (; request != side.requests.end() && request->first <= up_to; ++request) {
    Request& asked = request->second;
    if (asked.own_answer && !asked.done) {
      if (asked.packet == traced.answers) return;
      suspect_implied_nak(side, index, request->first + asked.received);
      return;
    }
    if (traced.answers_from == kNoIndex) traced.answers_from = asked.packet;
    asked.done = true;
    answered(asked, index);
    side.unanswered = request->first + asked.count;
  }
}

void Sequencer::refuse(Requester& side, Index index) {
  const TracedPacket& traced = at(index);
  const uint8_t syndrome = traced.packet->syndrome;
  const bool rnr = syndrome_kind(syndrome) == SyndromeKind::kRnrNak;
  const bool sequence = syndrome == nak_syndrome(NakCode::kPsnSequence);
  if ((!rnr && !sequence) || lost_on_wire(traced)) return;
  (rnr ? side.last_rnr_nak : side.last_sequence_nak) = index;
  const Sequence seq = side.next_seq + (traced.packet->psn - side.next);
  std::erase_if(side.troubles, [](const Trouble& t) { return t.cause == Cause::kImpliedNak; });
  side.troubles.push_back({rnr ? Cause::kRnr : Cause::kSequenceNak, index, seq});
  const auto damaged = side.damaged.find(traced.packet->psn.value());
  if (damaged != side.damaged.end() && at(damaged->second).consequence == kNoIndex) {
    at(damaged->second).consequence = index;
  }
  if (sequence && side.gap_packet != kNoIndex && side.gap_psn == traced.packet->psn) {
    at(side.gap_packet).consequence = index;
    side.gap_packet = kNoIndex;
  }
}

void Sequencer::place_response(Requester& side, Index index, Sequence seq, const Request* request) {
  TracedPacket& traced = at(index);
  const auto before = side.responses.find(seq);
  traced.place = Place::kNew;
  if (before != side.responses.end() &&
      at(before->second).packet->info->operation == traced.packet->info->operation) {
    traced.repeats = before->second;
    const bool asked_again = request != nullptr && request->packet > before->second;
    const bool copy = same_frame(at(before->second), traced) && !asked_again;
    // ACKs of one PSN are many and mean different things: only the very same frame is a copy.
    if (copy) {
      traced.place = Place::kCopy;
    } else if (traced.packet->info->operation != Operation::kAcknowledge) {
      traced.place = Place::kAgain;
      const Index last = side.last_response;
      traced.continues = last != kNoIndex && at(last).place == Place::kAgain &&
                         at(last).packet->psn + 1 == traced.packet->psn;
    }
  }
  side.responses[seq] = index;
  side.last_response = index;
}

// Whether a response is the next one for the READ before `request`, which was asked again before it
// could come: responses come in order, so it cannot be for the newer one.
bool Sequencer::late_read_response(Index index, Sequence seq, Requests::iterator request) {
  Request& asked = request->second;
  if (asked.older == kNoIndex || asked.older_seen == 0 || asked.seen != 0) return false;
  if (seq == request->first || seq != asked.older_first + asked.older_seen) return false;
  TracedPacket& traced = at(index);
  traced.answers = asked.older;
  traced.part = ++asked.older_seen;
  traced.parts = asked.older_count;
  return true;
}

void Sequencer::read_response(Index index, Sequence seq, Requests::iterator request) {
  TracedPacket& traced = at(index);
  Request& asked = request->second;
  const auto offset = static_cast<uint32_t>(seq - request->first);
  traced.part = offset + 1;
  traced.parts = asked.count;
  answered(asked, index);
  Requester& side = sides_[1 - traced.side];
  if (offset > asked.seen) {
    traced.missing = offset - asked.seen;
    suspect_implied_nak(side, index, request->first + asked.received);
  }
  asked.seen = std::max(asked.seen, offset + 1);
  if (offset != asked.received) return;
  ++asked.received;
  std::erase_if(side.troubles, [](const Trouble& t) { return t.cause == Cause::kImpliedNak; });
  if (asked.received < asked.count && !traced.packet->info->ends_message()) return;
  asked.done = true;
}

void Sequencer::response(Index index) {
  TracedPacket& traced = at(index);
  Requester& side = sides_[1 - traced.side];
  const wire::ParsedPacket& packet = *traced.packet;
  traced.place = Place::kNew;
  traced.unheeded = unheeded(side, packet);
  if (!side.started || traced.unheeded != Unheeded::kNo) return;
  const Sequence seq = side.next_seq + (packet.psn - side.next);
  const auto request = covering(side, seq);
  const bool known = request != side.requests.end();
  if (known) traced.answers = request->second.packet;
  place_response(side, index, seq, known ? &request->second : nullptr);
  if (is_refusal(packet)) {
    acknowledge(side, index, seq - 1);
    if (known) answered(request->second, index);
    refuse(side, index);
  } else {
    const bool read = known && packet.info->operation == Operation::kReadResponse;
    if (read && late_read_response(index, seq, request)) {
      side.last_answer = traced.time;
      return;
    }
    if (read) {
      read_response(index, seq, request);
    } else if (known && packet.info->operation == Operation::kAtomicAcknowledge) {
      answered(request->second, index);
      request->second.done = true;
    }
    acknowledge(side, index, seq);
  }
  side.last_answer = traced.time;
}

}  // namespace

void explain_sequence(Trace& trace, Connection& connection) {
  find_path_mtu(trace, connection);
  if (connection.service == Service::kRc || connection.service == Service::kUc) {
    Sequencer(trace, connection).run();
  }
}

}  // namespace verbena::trace
