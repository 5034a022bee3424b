#include "stack/trace.h"

#include <cstdio>
#include <string_view>

namespace verbena {
namespace {

std::string hex(uint32_t psn) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%06x", psn);
  return text;
}

std::string_view words(ResendCause cause) {
  switch (cause) {
    case ResendCause::kNone:
      return "";
    case ResendCause::kSequenceNak:
      return "after a sequence NAK";
    case ResendCause::kAckTimeout:
      return "no answer in time";
    case ResendCause::kImpliedNak:
      return "a READ response is missing";
    case ResendCause::kRnrNak:
      return "the wait after an RNR NAK is over";
    case ResendCause::kMemoryNotReady:
      return "the answer could not be stored";
  }
  return "";
}

std::string_view words(NakCause cause) {
  switch (cause) {
    case NakCause::kNone:
      return "";
    case NakCause::kGap:
      return "a packet is missing";
    case NakCause::kBehindRead:
      return "a READ before it must be answered first";
    case NakCause::kNoReceive:
      return "no receive is posted";
    case NakCause::kMemoryNotReady:
      return "the client's memory is not ready";
    case NakCause::kMessageOrder:
      return "First, Middle and Last do not follow each other";
    case NakCause::kOperation:
      return "the queue pair does not take this operation";
    case NakCause::kTooManyReads:
      return "more READs are outstanding than agreed";
    case NakCause::kLength:
      return "its length is not what the headers say";
    case NakCause::kUnknownKey:
      return "no region has this R_Key";
    case NakCause::kWrongPd:
      return "the region is of another protection domain";
    case NakCause::kNoAccess:
      return "the region does not allow it";
    case NakCause::kOutOfRange:
      return "it goes beyond the region";
    case NakCause::kRegionGone:
      return "the region of the READ is gone";
    case NakCause::kMemoryFault:
      return "the memory behind the region is gone";
    case NakCause::kReceiveTooShort:
      return "the receive is too short";
    case NakCause::kReceiveFaulty:
      return "the receive is faulty";
  }
  return "";
}

std::string refusal(const RxVerdict& verdict) {
  if (verdict.nak == NakCause::kGap) {
    return "ahead of the expected PSN " + hex(verdict.psn) + ": sequence NAK";
  }
  const bool waits =
      verdict.nak == NakCause::kNoReceive || verdict.nak == NakCause::kMemoryNotReady;
  return "not executed, " + std::string(words(verdict.nak)) + (waits ? ": RNR NAK" : ": NAK");
}

std::string drop_words(const RxVerdict& verdict) {
  const std::string text = "dropped: " + std::string(drop_reason_name(verdict.drop));
  return verdict.drop == DropReason::kRepeatedGap ? text + ", expected is PSN " + hex(verdict.psn)
                                                  : text;
}

}  // namespace

std::string to_words(const TxNote& note) {
  switch (note.kind) {
    case TxNote::Kind::kNone:
      return "";
    case TxNote::Kind::kRequest:
      return note.resend == ResendCause::kNone
                 ? "request"
                 : "request sent again: " + std::string(words(note.resend));
    case TxNote::Kind::kAck:
      return "ACK";
    case TxNote::Kind::kNak: {
      const bool waits = note.nak == NakCause::kNoReceive || note.nak == NakCause::kMemoryNotReady;
      return (waits ? "RNR NAK: " : "NAK: ") + std::string(words(note.nak));
    }
    case TxNote::Kind::kReadResponse:
      return "READ response " + std::to_string(note.part) + " of " + std::to_string(note.parts) +
             (note.repeated ? ", to a READ that came twice" : "");
  }
  return "";
}

std::string to_words(const RxVerdict& verdict) {
  switch (verdict.kind) {
    case RxVerdict::Kind::kNone:
      return "not looked at";
    case RxVerdict::Kind::kDropped:
      return drop_words(verdict);
    case RxVerdict::Kind::kExecuted:
      return "expected PSN: executed";
    case RxVerdict::Kind::kReadAccepted:
      return "expected PSN: READ accepted";
    case RxVerdict::Kind::kDuplicate:
      return "duplicate: acknowledged again, not executed";
    case RxVerdict::Kind::kDuplicateRead:
      return "duplicate: READ answered again";
    case RxVerdict::Kind::kRefused:
      return refusal(verdict);
    case RxVerdict::Kind::kNoAnswer:
      return "no answer: the program is gone";
    case RxVerdict::Kind::kAcknowledged:
      return "acknowledges up to PSN " + hex(verdict.psn);
    case RxVerdict::Kind::kNothingNew:
      return "acknowledges nothing new";
    case RxVerdict::Kind::kReadData:
      return "expected PSN: READ data stored";
    case RxVerdict::Kind::kResponseMissing:
      return "READ response " + hex(verdict.psn) + " is missing: asks for it again";
    case RxVerdict::Kind::kResponseAwaited:
      return "READ response " + hex(verdict.psn) + " is missing, and was asked for";
    case RxVerdict::Kind::kGoesBack:
      return "sends again from PSN " + hex(verdict.psn) + " on";
    case RxVerdict::Kind::kWaitsForReceive:
      return "waits, then sends again from PSN " + hex(verdict.psn) + " on";
    case RxVerdict::Kind::kDuringWait:
      return "no effect: waits after an RNR NAK";
    case RxVerdict::Kind::kConnectionEnds:
      return "ends the queue pair with an error";
    case RxVerdict::Kind::kCongestion:
      return "congestion notification";
    case RxVerdict::Kind::kDelivered:
      return "datagram delivered";
  }
  return "";
}

}  // namespace verbena
