// What a capture says: which packets belong to which connection, who sent them, and what each one
// is there: new, sent again, after a gap, the answer to which request.
//
// A packet holds the QPN of its receiver only (but for datagrams). The sender's is inferred by
// finding the flow the other way: from the QPNs in the connection manager's REQ and REP, from
// responses whose PSNs are those of requests, and from the UDP source ports, which both ends choose
// alike. `Connection::pairing` says which it was.
//
// Pure: no IO, no clock. Takes captures of any content: what is no RoCEv2 is counted and left out,
// and what contradicts itself is described as it stands. Never throws but for want of memory.
// A Trace refers to the Capture it was made from, which must outlive it unchanged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stack/base/time.h"
#include "stack/stats.h"
#include "stack/types.h"
#include "stack/wire/parse.h"
#include "tools/trace/capture_reader.h"

namespace verbena::trace {

// A position in Trace::packets or Trace::connections.
using Index = uint32_t;
inline constexpr Index kNoIndex = 0xFFFFFFFF;

enum class Service : uint8_t {
  kRc,
  kUc,
  kUd,
  kGsi,      // QP1 to QP1: the connection manager
  kUnknown,  // nothing but CNPs
};

// Where the knowledge of both QPNs comes from, the surest first.
enum class Pairing : uint8_t {
  kHeaders,   // every packet holds both (UD, GSI)
  kCm,        // REQ and REP
  kPsns,      // responses answer PSNs of the flow the other way
  kPorts,     // the same UDP source port both ways
  kOnlyOnes,  // no other flow between these hosts could be the other one
  kOneSided,  // one direction was captured: the QPN of its sender is not known
};

struct Endpoint {
  Gid gid;
  MacAddr mac;
  std::optional<Qpn> qpn;
};

struct Connection {
  Service service = Service::kRc;
  Pairing pairing = Pairing::kHeaders;
  std::array<Endpoint, 2> sides;  // side 0 sent the first request
  // In bytes: that of a First or Middle packet, or of the REQ; else the smallest that fits all
  // that was seen, and then `path_mtu_known` is false.
  uint32_t path_mtu = 0;
  bool path_mtu_known = false;
  std::vector<Index> packets;  // in the order of the capture
};

// How a packet stands to those before it of the same sender and connection.
enum class Place : uint8_t {
  kUnordered,  // has no place: datagram, CNP, no connection, wrong ICRC
  kNew,        // the next ones in order, perhaps after a gap (`missing`)
  kAgain,      // sent again by its sender; `cause` says why
  kCopy,       // the same frame once more: repeated by the network, or captured twice
  kLate,       // was missing, and comes after later ones: overtaken on its way
  kRestart,    // its PSN is far from all before it: the QPs were set up anew
};

// Why something was sent again.
enum class Cause : uint8_t {
  kNone,         // not sent again, or nothing in the capture explains it
  kSequenceNak,  // `cause_packet` is the NAK
  kRnr,          // `cause_packet` is the RNR NAK, `waited` the time since
  kImpliedNak,   // `cause_packet` is the response that passed over one of a READ or atomic
  kTimeout,      // nothing was heard for `waited`
};

// Why a requester pays no heed to a response.
enum class Unheeded : uint8_t {
  kNo,
  kReserved,  // its syndrome is reserved (RC-REQ-15)
  kNotSent,   // no request before it has its PSN (RC-REQ-14)
};

struct TracedPacket {
  uint32_t number = 0;  // of its frame in the capture, from 1, as Wireshark counts
  Timestamp time = 0;
  std::span<const uint8_t> frame;  // bytes of the capture
  uint32_t wire_bytes = 0;         // length of the frame on the wire, as the capture says
  uint32_t captured_bytes = 0;     // how much of that the capture holds
  std::string_view comment;        // on it, in the capture
  bool cut = false;                // the capture has less of it: the ICRC cannot be judged

  // At least one of these two. Both: the frame can be read but a receiver drops it (kBadIcrc).
  // Of a cut frame, `packet->payload` and `packet->ip` end where the captured bytes do.
  std::optional<wire::ParsedPacket> packet;
  std::optional<DropReason> drop;
  uint32_t payload_bytes = 0;  // on the wire

  Index connection = kNoIndex;  // a frame with a wrong ICRC belongs to that whose headers it has
  uint8_t side = 0;             // who sent it

  Place place = Place::kUnordered;
  Index repeats = kNoIndex;  // kAgain, kCopy: the last packet before it with the same PSN; may be
                             // unknown for kAgain, when the first one was lost before this capture
  Cause cause = Cause::kNone;
  Index cause_packet = kNoIndex;
  DurationNs waited = 0;
  bool continues = false;  // kAgain: goes on with the repetition of the packet before it
  uint32_t missing = 0;    // PSNs that should have come before this one and did not until now

  // Requests.
  uint32_t psn_count = 1;  // READ requests: PSNs that the responses take
  // The end of a WRITE of which all was seen: it is not as long as its RETH says.
  bool wrong_length = false;
  // The first response that acknowledges it; while there is none, one that refuses it.
  Index answered_by = kNoIndex;
  // Responses.
  Unheeded unheeded = Unheeded::kNo;  // else nothing of what follows is set
  Index answers = kNoIndex;           // the request that it is for: the newest with its PSN
  Index answers_from = kNoIndex;  // ACKs: the oldest request acknowledged with it; kNoIndex: none
                                  // was waiting, it repeats what an earlier one said
  uint32_t part = 0;              // READ responses: which one of `parts` (from 1); 0: not known
  uint32_t parts = 0;
  // Frames with a wrong ICRC, and requests that passed a gap: the NAK or the request sent again
  // that came of it.
  Index consequence = kNoIndex;

  [[nodiscard]] bool good() const { return packet.has_value() && !drop.has_value(); }
};

struct Trace {
  std::vector<TracedPacket> packets;    // all RoCEv2 ones, in the order of the capture
  std::vector<Connection> connections;  // in the order of their first packets
  // Frames that are not in `packets`.
  uint32_t other_frames = 0;   // no UDP to port 4791: ARP, TCP, ...
  uint32_t rocev1_frames = 0;  // RoCE without IP and UDP, which this project does not speak
};

Trace analyse(const Capture& capture);

// 0 where a capture's clock went back.
constexpr DurationNs elapsed(Timestamp from, Timestamp to) {
  return to > from ? to - from : 0;
}

}  // namespace verbena::trace
