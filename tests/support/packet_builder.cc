#include "tests/support/packet_builder.h"

#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "tools/sim/memory.h"

namespace verbena::test {

std::vector<uint8_t> build_packet(const wire::Path& path, Qpn dest_qpn,
                                  const PacketFields& fields) {
  wire::PacketSpec spec;
  spec.path = &path;
  spec.opcode = fields.opcode;
  spec.psn = Psn(fields.psn);
  spec.ack_req = fields.ack_req;
  spec.solicited = fields.solicited;
  spec.dest_qpn = dest_qpn;
  spec.va = fields.va;
  spec.rkey = fields.rkey;
  spec.dma_length = fields.dma_length;
  spec.syndrome = fields.syndrome;
  spec.msn = fields.msn;
  spec.imm_wire = fields.imm_wire;
  spec.payload_bytes = fields.bytes;
  std::vector<uint8_t> frame(wire::frame_bytes(spec));
  uint8_t* payload = wire::emit_headers(spec, frame.data());
  for (uint32_t i = 0; i < fields.bytes; ++i) {
    payload[i] = sim::Memory::pattern(fields.seed, fields.seed_offset + i);
  }
  wire::finish(spec, frame.data());
  return frame;
}

void fix_icrc(std::vector<uint8_t>& frame) {
  const size_t ip = wire::EthernetView<uint8_t>::kBytes;
  const size_t icrc = frame.size() - wire::kIcrcBytes;
  wire::store_icrc(frame.data() + icrc, {frame.data() + ip, icrc - ip});
}

}  // namespace verbena::test
