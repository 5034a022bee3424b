// Trace: why a frame was sent, and what became of one that was received, in a few bytes each.
//
// The engine writes them where it decides; a capture turns them into words. A note travels with
// TxFrame to the sink, a verdict is left by Device::on_burst for who asks for it. No pointers: they
// may be kept, and passed between threads.
#pragma once

#include <cstdint>
#include <string>

#include "stack/stats.h"

namespace verbena {

// Why a requester sends again what it has sent before.
enum class ResendCause : uint8_t {
  kNone,
  kSequenceNak,     // the responder misses a packet (RC-REQ-20)
  kAckTimeout,      // no answer came (RC-REQ-30)
  kImpliedNak,      // an answer to something later came (RC-REQ-12)
  kRnrNak,          // the responder had no receive, and the wait is over (RC-REQ-40)
  kMemoryNotReady,  // the answer could not be stored
};

// Why a responder sends a NAK.
enum class NakCause : uint8_t {
  kNone,
  kGap,              // a packet before this one is missing
  kBehindRead,       // dropped behind a READ that could not be answered before it
  kNoReceive,        // no receive work request is posted
  kMemoryNotReady,   // client memory to store it in
  kMessageOrder,     // First, Middle and Last do not follow each other
  kOperation,        // not offered, or not allowed on this queue pair
  kTooManyReads,     // more than max_dest_rd_atomic
  kLength,           // not what its opcode and the message's header say
  kUnknownKey,       // the R_Key
  kWrongPd,          // the region is of another protection domain
  kNoAccess,         // the region does not allow it
  kOutOfRange,       // beyond the region
  kRegionGone,       // since the READ was accepted
  kMemoryFault,      // the memory behind the region is gone
  kReceiveTooShort,  // the receive work request
  kReceiveFaulty,    // the receive work request or its region
};

// Of a frame that is sent.
struct TxNote {
  enum class Kind : uint8_t { kNone, kRequest, kAck, kNak, kReadResponse };

  Kind kind = Kind::kNone;
  ResendCause resend = ResendCause::kNone;  // kRequest
  NakCause nak = NakCause::kNone;           // kNak
  bool repeated = false;                    // kReadResponse: to a READ that came again
  uint32_t part = 0;                        // kReadResponse: counted from 1
  uint32_t parts = 0;
};

// Of a frame that was received.
struct RxVerdict {
  enum class Kind : uint8_t {
    kNone,     // nobody has looked at it
    kDropped,  // `drop`; for kRepeatedGap `psn` is the one expected
    // A responder's.
    kExecuted,       // expected
    kReadAccepted,   // expected; to be answered
    kDuplicate,      // a SEND or WRITE: acknowledged again, not executed
    kDuplicateRead,  // to be answered again
    kRefused,        // expected, and answered with a NAK for `nak`; `psn` is the one missing
    kNoAnswer,       // the process behind the queue pair is gone
    // A requester's.
    kAcknowledged,     // requests up to `psn` are done
    kNothingNew,       // acknowledges what is known
    kReadData,         // expected, and stored
    kResponseAwaited,  // the same again: it was asked for already
    kResponseMissing,  // answers something later than `psn`, a READ response that is missing
    kGoesBack,         // a sequence NAK: sends again from `psn` on
    kWaitsForReceive,  // an RNR NAK: sends again from `psn` on after the time that it says
    kDuringWait,       // no effect while waiting after an RNR NAK
    kConnectionEnds,   // completes with an error
    kCongestion,       // a CNP
    // Of a datagram.
    kDelivered,
  };

  Kind kind = Kind::kNone;
  DropReason drop = DropReason::kCount;
  NakCause nak = NakCause::kNone;
  uint32_t psn = 0;
};

// In words, without a full stop: "sent again: no ACK in time", "dropped: bad ICRC".
std::string to_words(const TxNote& note);
std::string to_words(const RxVerdict& verdict);

}  // namespace verbena
