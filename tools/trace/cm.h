// The messages of the connection manager, as far as a reader of captures needs them
// (IBTA vol. 1 ch. 12; MADs of 256 bytes on QP1).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stack/types.h"
#include "stack/wire/psn.h"

namespace verbena::trace {

enum class CmAttribute : uint16_t {
  kReq = 0x10,
  kMra,
  kRej,
  kRep,
  kRtu,
  kDreq,
  kDrep,
  kSidrReq,
  kSidrRep,
  kLap,
  kApr,
};

struct CmMessage {
  CmAttribute attribute = CmAttribute::kReq;
  std::string_view name;  // "REQ"
  uint64_t transaction = 0;
  uint32_t local_id = 0;        // SIDR: the request id
  uint32_t remote_id = 0;       // 0 where there is none
  std::optional<Qpn> qpn;       // the sender's (REQ, REP, SIDR_REP); of a DREQ its receiver's
  Psn starting_psn;             // REQ, REP: the first PSN that the *other* side sends with
  uint64_t service_id = 0;      // REQ, SIDR_REQ, SIDR_REP
  uint8_t path_mtu = 0;         // REQ: code of PathMtu, not checked
  uint8_t ack_timeout = 0;      // REQ: local ACK timeout code
  uint8_t retry_count = 0;      // REQ
  uint8_t rnr_retry_count = 0;  // REQ, REP
  uint16_t reason = 0;          // REJ: why; SIDR_REP: status
};

// Nothing when `mad` is no message of the connection manager, or too short for what it says it is.
std::optional<CmMessage> parse_cm(std::span<const uint8_t> mad);

// "consumer reject" and the like; "reason 77" has no words here: "unknown reason".
std::string_view reject_reason_name(uint16_t reason);

}  // namespace verbena::trace
