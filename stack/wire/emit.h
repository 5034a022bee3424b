// PacketSpec -> the header bytes of a frame, and the ICRC that closes it.
//
// Used in three steps, so that the payload is gathered straight into the frame:
//   1. size = frame_bytes(spec);                    how large a buffer is needed
//   2. payload = emit_headers(spec, frame);         writes Ethernet ... last extended header
//      (the caller copies spec.payload_bytes bytes to `payload`)
//   3. finish(spec, frame);                         zeroes the pad and writes the ICRC
#pragma once

#include <cstdint>

#include "stack/types.h"
#include "stack/wire/opcode.h"
#include "stack/wire/psn.h"

namespace verbena::wire {

// Where packets of a connection go: all that is the same for each of them.
struct Path {
  MacAddr source_mac;
  MacAddr dest_mac;
  Gid source_gid;
  Gid dest_gid;
  uint16_t source_port = 0xC000;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  // IPv6
};

struct PacketSpec {
  const Path* path = nullptr;  // not owned; must outlive the calls
  Opcode opcode = Opcode::kSendOnly;
  bool solicited = false;
  bool ack_req = false;
  bool mig_req = true;  // as ConnectX: the path is migrated
  bool becn = false;
  uint16_t pkey = 0xFFFF;
  uint16_t ip_id = 0;  // IPv4 identification
  Qpn dest_qpn = 0;
  Psn psn;
  uint64_t va = 0;
  Key rkey = 0;
  uint32_t dma_length = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits
  uint64_t atomic_original = 0;
  uint32_t imm_wire = 0;  // network order, copied as it is
  Key invalidate_rkey = 0;
  uint32_t qkey = 0;
  Qpn source_qpn = 0;
  uint32_t payload_bytes = 0;  // 0..4096
};

// Ethernet frame bytes without FCS, pad and ICRC included.
uint32_t frame_bytes(const PacketSpec& spec);

// Writes all headers to `frame` (frame_bytes(spec) bytes, no alignment needed); returns where the
// payload begins.
uint8_t* emit_headers(const PacketSpec& spec, uint8_t* frame);

// Zeroes the pad bytes and stores the ICRC. The payload must be in place.
void finish(const PacketSpec& spec, uint8_t* frame);

// UDP source port of a connection (rules in Annex A17 and the Linux drivers): from the flow label
// when that is not 0, else from the two QP numbers, so that both directions use the same one.
uint16_t udp_source_port(uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace verbena::wire
