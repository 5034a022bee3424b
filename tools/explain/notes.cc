#include "tools/explain/notes.h"

#include <fmt/format.h>

#include "stack/wire/syndrome.h"
#include "tools/explain/text.h"
#include "tools/trace/cm.h"
#include "tools/trace/wire_fate.h"

namespace verbena::explain {
namespace {

using trace::Cause;
using trace::Index;
using trace::kNoIndex;
using trace::Place;
using trace::Trace;
using trace::TracedPacket;
using trace::Unheeded;

constexpr uint8_t kCongestionExperienced = 3;  // of the ECN field (RFC 3168)

// Collects sentences.
class Note {
 public:
  explicit Note(PacketWords& words) : words_(words) {}
  void warn(const std::string& sentence) { add(sentence, Tone::kWarning); }
  void fail(const std::string& sentence) { add(sentence, Tone::kError); }
  void colour(Tone tone) { words_.tone = std::max(words_.tone, tone); }
  void say(const std::string& sentence) { add(sentence, words_.tone); }

 private:
  void add(const std::string& sentence, Tone tone) {
    if (!words_.note.empty()) words_.note += "; ";
    words_.note += sentence;
    colour(tone);
  }

  PacketWords& words_;
};

void note_fate(const TracedPacket& traced, Note& note) {
  const std::string_view fate = fate_of(traced);
  if (fate.empty()) return;
  const std::string sentence = fmt::format("on the wire: {}", fate);
  if (lost_on_wire(traced)) {
    note.fail(sentence);
  } else {
    note.warn(sentence);
  }
}

std::string packet_text(const Trace& trace, Index index) {
  return fmt::format("packet {}", trace.packets[index].number);
}

bool is_sequence_nak(const TracedPacket& traced) {
  return traced.packet && traced.packet->info->has_aeth &&
         traced.packet->syndrome == nak_syndrome(NakCode::kPsnSequence);
}

void note_drop(const Trace& trace, const TracedPacket& traced, Note& note) {
  if (!traced.drop) return;
  if (*traced.drop != DropReason::kBadIcrc) {
    note.fail(drop_text(*traced.drop));
    return;
  }
  note.fail("wrong ICRC: damaged on its way, the receiver drops it");
  if (traced.consequence == kNoIndex) return;
  const TracedPacket& then = trace.packets[traced.consequence];
  note.fail(is_sequence_nak(then)
                ? fmt::format("the NAK in packet {} tells its sender", then.number)
                : fmt::format("packet {} is it, sent again", then.number));
}

std::string missing_psns(const TracedPacket& traced) {
  const Psn first = traced.packet->psn - traced.missing;
  if (traced.missing == 1) return fmt::format("PSN {} is missing before it", psn_text(first));
  return fmt::format("{} PSNs are missing before it, {} to {}", traced.missing, psn_text(first),
                     psn_text(first + (traced.missing - 1)));
}

void note_missing(const Trace& trace, const TracedPacket& traced, Note& note) {
  if (traced.missing == 0) return;
  const OpcodeInfo& info = *traced.packet->info;
  std::string sentence = missing_psns(traced);
  if (info.operation == Operation::kReadResponse) {
    note.warn(fmt::format("{}: the requester drops this one and asks again", sentence));
  } else if (info.transport == Transport::kUc) {
    note.warn(sentence + ": UC loses the message that they belong to");
  } else if (traced.consequence != kNoIndex) {
    note.warn(fmt::format("{}: the responder answers NAK, once, in {}", sentence,
                          packet_text(trace, traced.consequence)));
  } else {
    note.warn(sentence + ": the responder will answer NAK sequence error, once");
  }
}

std::string cause_text(const Trace& trace, const TracedPacket& traced) {
  const std::string cause =
      traced.cause_packet == kNoIndex ? "" : packet_text(trace, traced.cause_packet);
  switch (traced.cause) {
    case Cause::kSequenceNak:
      if (cause.empty()) return "for a NAK that is not in this capture";
      return fmt::format("for the NAK in {}", cause);
    case Cause::kRnr:
      if (cause.empty()) return "after an RNR NAK that is not in this capture";
      return fmt::format("{} after the RNR NAK in {}", duration_text(traced.waited), cause);
    case Cause::kImpliedNak:
      if (cause.empty()) return "an answer that is not in this capture passed over its own";
      return fmt::format("{} passed over its answer", cause);
    case Cause::kTimeout:
      return fmt::format("no answer for {}, the timer ran out", duration_text(traced.waited));
    case Cause::kNone:
      break;
  }
  return "nothing in this capture says why";
}

// Of `traced`, which has place kAgain.
std::string what_again(const Trace& trace, const TracedPacket& traced) {
  if (traced.repeats == kNoIndex) return "sent again (the first time is not in this capture)";
  const TracedPacket& before = trace.packets[traced.repeats];
  const int32_t moved = traced.packet->psn - before.packet->psn;
  if (traced.packet->info->operation == Operation::kReadRequest && moved > 0) {
    return fmt::format("asks for the rest of the READ in packet {}, from its response {} on",
                       before.number, moved + 1);
  }
  return fmt::format("sent again (packet {})", before.number);
}

void note_length(const Trace& trace, const TracedPacket& traced, Note& note) {
  if (!traced.wrong_length) return;
  note.warn("the WRITE is not as long as it announced: no responder may carry it out");
  if (traced.answered_by == kNoIndex) return;
  const wire::ParsedPacket& answer = *trace.packets[traced.answered_by].packet;
  if (answer.info->has_aeth && syndrome_kind(answer.syndrome) == SyndromeKind::kAck) {
    note.warn(
        fmt::format("{} acknowledges it all the same", packet_text(trace, traced.answered_by)));
  }
}

void note_request(const Trace& trace, const TracedPacket& traced, Note& note) {
  note_length(trace, traced, note);
  switch (traced.place) {
    case Place::kAgain: {
      if (traced.continues) {
        note.colour(Tone::kWarning);
        return;
      }
      note.warn(fmt::format("{}: {}", what_again(trace, traced), cause_text(trace, traced)));
      const Index before = traced.repeats;
      const Index answer = before == kNoIndex ? kNoIndex : trace.packets[before].answered_by;
      if (answer == kNoIndex || &trace.packets[answer] > &traced) return;
      const wire::ParsedPacket& response = *trace.packets[answer].packet;
      if (!response.info->has_aeth || syndrome_kind(response.syndrome) != SyndromeKind::kAck)
        return;
      const bool rest = traced.packet->psn != trace.packets[before].packet->psn;
      if (traced.cause == Cause::kTimeout && !rest) {
        note.warn(
            fmt::format("its answer in packet {} did not arrive", trace.packets[answer].number));
      }
      return;
    }
    case Place::kCopy:
      note.warn(fmt::format("the same frame as {}: repeated on its way, or captured twice",
                            packet_text(trace, traced.repeats)));
      return;
    case Place::kLate:
      note.warn("it was missing until now: overtaken on its way");
      return;
    case Place::kRestart:
      note.say("PSNs begin anew: the QPs were set up again");
      return;
    case Place::kNew:
    case Place::kUnordered:
      return;
  }
}

void note_syndrome(const TracedPacket& traced, Note& note) {
  const wire::ParsedPacket& packet = *traced.packet;
  if (!packet.info->has_aeth) return;
  switch (syndrome_kind(packet.syndrome)) {
    case SyndromeKind::kAck:
    case SyndromeKind::kReserved:
      return;
    case SyndromeKind::kRnrNak:
      note.warn(fmt::format("no receive is posted: send it again, {} from now at the earliest",
                            duration_text(rnr_delay(syndrome_value(packet.syndrome)))));
      return;
    case SyndromeKind::kNak:
      break;
  }
  switch (static_cast<NakCode>(syndrome_value(packet.syndrome))) {
    case NakCode::kPsnSequence:
      note.warn(fmt::format("the responder waits for PSN {} and drops what comes after it",
                            psn_text(packet.psn)));
      return;
    case NakCode::kInvalidRequest:
      note.fail("not allowed on this QP, or malformed: the request fails and the QP ends");
      return;
    case NakCode::kRemoteAccess:
      note.fail("wrong rkey, range or rights: the request fails and the QP ends");
      return;
    case NakCode::kRemoteOperational:
      note.fail("the responder could not carry it out: the request fails and the QP ends");
      return;
  }
}

void note_unheeded(const TracedPacket& traced, Note& note) {
  switch (traced.unheeded) {
    case Unheeded::kNo:
      return;
    case Unheeded::kReserved:
      note.fail("a reserved syndrome: the requester ignores it");
      return;
    case Unheeded::kNotSent:
      note.warn("no request before it has this PSN: the requester drops it");
      return;
  }
}

void note_response(const Trace& trace, const TracedPacket& traced, Note& note) {
  if (traced.unheeded != Unheeded::kNo) {
    note_unheeded(traced, note);
    return;
  }
  note_syndrome(traced, note);
  const bool plain_ack = traced.packet->info->operation == Operation::kAcknowledge &&
                         syndrome_kind(traced.packet->syndrome) == SyndromeKind::kAck;
  if (traced.place == Place::kCopy) {
    note.warn(fmt::format("the same frame as {}: repeated on its way, or captured twice",
                          packet_text(trace, traced.repeats)));
  } else if (traced.place == Place::kAgain) {
    note.colour(Tone::kWarning);
    if (!traced.continues) {
      note.warn(fmt::format("sent again (packet {}), as it was asked again",
                            trace.packets[traced.repeats].number));
    }
  } else if (plain_ack && traced.answers != kNoIndex && traced.answers_from == kNoIndex &&
             traced.repeats != kNoIndex) {
    note.warn("says nothing new: the answer to a request that came twice");
  }
}

std::string service_text(uint64_t service_id) {
  // RDMA IP CM service (Annex A11): a port space and a port.
  constexpr uint64_t kIpService = 0x01;
  if (service_id >> 24 != kIpService) return fmt::format("service 0x{:x}", service_id);
  return fmt::format("port {}", service_id & 0xFFFF);
}

void note_cm(const TracedPacket& traced, Note& note) {
  const auto message = trace::parse_cm(traced.packet->payload);
  if (!message) return;
  switch (message->attribute) {
    case trace::CmAttribute::kReq:
      note.say(fmt::format("{} asks for a connection to {}, and for PSNs from {} on",
                           qpn_text(message->qpn), service_text(message->service_id),
                           psn_text(message->starting_psn)));
      return;
    case trace::CmAttribute::kRep:
      note.say(fmt::format("{} accepts, and asks for PSNs from {} on", qpn_text(message->qpn),
                           psn_text(message->starting_psn)));
      return;
    case trace::CmAttribute::kRtu:
      note.say("ready to use: the connection stands");
      return;
    case trace::CmAttribute::kRej:
      note.fail(fmt::format("rejected, reason {}: {}", message->reason,
                            trace::reject_reason_name(message->reason)));
      return;
    case trace::CmAttribute::kDreq:
      note.say(fmt::format("asks {} to disconnect", qpn_text(message->qpn)));
      return;
    case trace::CmAttribute::kDrep:
      note.say("disconnected");
      return;
    case trace::CmAttribute::kSidrReq:
      note.say(fmt::format("asks for the UD QP of {}", service_text(message->service_id)));
      return;
    case trace::CmAttribute::kSidrRep:
      if (message->reason == 0) {
        note.say(fmt::format("it is {}", qpn_text(message->qpn)));
      } else {
        note.fail(fmt::format("refused, status {}", message->reason));
      }
      return;
    case trace::CmAttribute::kMra:
      note.say("got it, the answer will take longer");
      return;
    case trace::CmAttribute::kLap:
    case trace::CmAttribute::kApr:
      note.say("about an alternate path, which RoCE does not use");
      return;
  }
}

}  // namespace

void add_note(const Trace& trace, const TracedPacket& traced, PacketWords& words) {
  Note note(words);
  words.lost = traced.drop.has_value() || lost_on_wire(traced);
  note_fate(traced, note);
  note_drop(trace, traced, note);
  if (!traced.good()) return;
  const wire::ParsedPacket& packet = *traced.packet;
  if (packet.info->operation == Operation::kCnp) {
    note.warn("packets were marked by a switch: its receiver is to send more slowly");
    return;
  }
  if (words.tone == Tone::kManagement) note_cm(traced, note);
  if (packet.info->is_response()) {
    note_response(trace, traced, note);
  } else {
    note_request(trace, traced, note);
  }
  note_missing(trace, traced, note);
  if (packet.ecn == kCongestionExperienced) {
    note.warn("marked by a switch: congestion experienced");
  }
}

}  // namespace verbena::explain
