// Bytes of a frame -> ParsedPacket, or the reason to drop it.
//
// One pass; every length is checked once, here. After success all fields and the payload span are
// valid and inside the frame. Tolerant of what real adapters send: MigReq and reserved BTH bits are
// ignored, any UDP source port is taken, UDP checksum 0 or right, an 802.1Q tag is skipped.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "stack/stats.h"
#include "stack/types.h"
#include "stack/wire/opcode.h"
#include "stack/wire/psn.h"

namespace verbena::wire {

struct ParsedPacket {
  const OpcodeInfo* info = nullptr;  // never null after parse(); points into the static table
  uint8_t opcode = 0;                // the raw byte
  bool solicited = false;
  bool mig_req = false;
  bool ack_req = false;
  bool becn = false;
  uint8_t ecn = 0;  // 2 bits of the IP header; 3 = congestion experienced
  uint8_t traffic_class = 0;
  uint16_t pkey = 0;
  Qpn dest_qpn = 0;
  Psn psn;

  MacAddr source_mac;
  MacAddr dest_mac;
  Gid source_gid;  // IPv4 sources as ::ffff:a.b.c.d
  Gid dest_gid;
  uint16_t source_port = 0;

  // RETH, AtomicETH (va, rkey)
  uint64_t va = 0;
  Key rkey = 0;
  uint32_t dma_length = 0;  // RETH only
  uint64_t swap_add = 0;    // AtomicETH
  uint64_t compare = 0;     // AtomicETH
  // AETH
  uint8_t syndrome = 0;
  uint32_t msn = 0;
  uint64_t atomic_original = 0;  // AtomicAckETH
  // ImmDt or IETH, as the 4 bytes stood on the wire
  uint32_t imm_wire = 0;  // network order, to be handed to the consumer as it is
  Key invalidate_rkey = 0;
  // DETH
  uint32_t qkey = 0;
  Qpn source_qpn = 0;

  std::span<const uint8_t> payload;  // without pad bytes; inside the frame
  std::span<const uint8_t> ip;       // from the IP header to the end of the ICRC
};

// Parses a whole Ethernet frame without FCS; trailing bytes after the IP packet are ignored.
// Checks everything about the bytes themselves but neither addresses nor the ICRC.
std::variant<ParsedPacket, DropReason> parse(std::span<const uint8_t> frame);

// True if the ICRC at the end of `packet.ip` is right.
bool icrc_valid(const ParsedPacket& packet);

}  // namespace verbena::wire
