// Expect: what a packet should be; a field that is not given does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stack/wire/parse.h"

namespace verbena::test {

struct Expect {
  std::optional<Opcode> opcode = {};
  std::optional<uint32_t> psn = {};
  std::optional<uint8_t> syndrome = {};
  std::optional<uint32_t> msn = {};
  std::optional<bool> ack_req = {};
  std::optional<bool> solicited = {};
  std::optional<uint64_t> va = {};
  std::optional<uint32_t> rkey = {};
  std::optional<uint32_t> dma_length = {};
  std::optional<uint32_t> imm_wire = {};
  std::optional<size_t> bytes = {};  // of the payload
  std::optional<uint32_t> dest_qpn = {};
};

// Empty if the packet is as expected; else what is different. PSNs are absolute.
std::string mismatch(const Expect& expected, const wire::ParsedPacket& packet);

// Parses and checks the ICRC; nullopt if the frame is not a good RoCEv2 packet.
std::optional<wire::ParsedPacket> parse_good(std::span<const uint8_t> frame);

}  // namespace verbena::test
