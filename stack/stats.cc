#include "stack/stats.h"

namespace verbena {

std::string_view drop_reason_name(DropReason reason) {
  switch (reason) {
    case DropReason::kTooShort:
      return "too_short";
    case DropReason::kNotForUs:
      return "not_for_us";
    case DropReason::kNotRoce:
      return "not_roce";
    case DropReason::kBadIpHeader:
      return "bad_ip_header";
    case DropReason::kBadLength:
      return "bad_length";
    case DropReason::kBadUdpChecksum:
      return "bad_udp_checksum";
    case DropReason::kBadIcrc:
      return "bad_icrc";
    case DropReason::kBadTransportVersion:
      return "bad_transport_version";
    case DropReason::kUnknownOpcode:
      return "unknown_opcode";
    case DropReason::kBadPkey:
      return "bad_pkey";
    case DropReason::kUnknownQp:
      return "unknown_qp";
    case DropReason::kWrongTransport:
      return "wrong_transport";
    case DropReason::kWrongAddress:
      return "wrong_address";
    case DropReason::kQpState:
      return "qp_state";
    case DropReason::kDuplicateNotFound:
      return "duplicate_not_found";
    case DropReason::kGhostAck:
      return "ghost_ack";
    case DropReason::kBadResponse:
      return "bad_response";
    case DropReason::kMemoryLater:
      return "memory_later";
    case DropReason::kRepeatedGap:
      return "repeated_gap";
    case DropReason::kReservedSyndrome:
      return "reserved_syndrome";
    case DropReason::kBadQkey:
      return "bad_qkey";
    case DropReason::kNoReceive:
      return "no_receive";
    case DropReason::kCount:
      break;
  }
  return "invalid";
}

}  // namespace verbena
