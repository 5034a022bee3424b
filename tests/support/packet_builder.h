// Makes frames as a peer would send them: a good packet from a few named fields.
#pragma once

#include <cstdint>
#include <vector>

#include "stack/wire/emit.h"

namespace verbena::test {

// What a packet carries. PSNs are absolute here.
struct PacketFields {
  Opcode opcode = Opcode::kSendOnly;
  uint32_t psn = 0;
  bool ack_req = true;
  bool solicited = false;
  uint32_t bytes = 0;  // payload: sim::Memory's pattern of `seed` from byte `seed_offset` on
  uint32_t seed = 0;
  uint32_t seed_offset = 0;
  uint64_t va = 0;
  Key rkey = 0;
  uint32_t dma_length = 0;
  uint8_t syndrome = 0x1F;  // ACK without credits
  uint32_t msn = 0;
  uint32_t imm_wire = 0;
};

// The frame with a right ICRC.
std::vector<uint8_t> build_packet(const wire::Path& path, Qpn dest_qpn, const PacketFields& fields);

// Writes the ICRC again, after a test has changed bytes. IPv4 or IPv6 without VLAN tag.
void fix_icrc(std::vector<uint8_t>& frame);

}  // namespace verbena::test
