#include "tests/support/matchers.h"

#include "stack/wire/describe.h"

namespace verbena::test {
namespace {

template <typename T>
std::string number(T value) {
  return std::to_string(static_cast<uint64_t>(value));
}

template <typename T, typename U>
void compare(std::string& text, const char* name, const std::optional<T>& want, U have) {
  if (!want || *want == static_cast<T>(have)) return;
  text += std::string(name) + " is " + number(have) + ", not " + number(*want) + "; ";
}

}  // namespace

std::string mismatch(const Expect& expected, const wire::ParsedPacket& packet) {
  std::string text;
  compare(text, "opcode", expected.opcode, packet.opcode);
  compare(text, "psn", expected.psn, packet.psn.value());
  compare(text, "syndrome", expected.syndrome, packet.syndrome);
  compare(text, "msn", expected.msn, packet.msn);
  compare(text, "ack_req", expected.ack_req, packet.ack_req);
  compare(text, "solicited", expected.solicited, packet.solicited);
  compare(text, "va", expected.va, packet.va);
  compare(text, "rkey", expected.rkey, packet.rkey);
  compare(text, "dma_length", expected.dma_length, packet.dma_length);
  compare(text, "imm", expected.imm_wire, packet.imm_wire);
  compare(text, "payload bytes", expected.bytes, packet.payload.size());
  compare(text, "dest_qpn", expected.dest_qpn, packet.dest_qpn);
  if (!text.empty()) text += "in: " + wire::describe(packet);
  return text;
}

std::optional<wire::ParsedPacket> parse_good(std::span<const uint8_t> frame) {
  const auto parsed = wire::parse(frame);
  const auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
  if (packet == nullptr || !wire::icrc_valid(*packet)) return std::nullopt;
  return *packet;
}

}  // namespace verbena::test
