#include "tests/trace/scenario.h"

#include <utility>

namespace verbena::trace::test {
namespace {

MacAddr mac_of(const Host& host) {
  return {{2, 0, 0, 0, 0, host.mac}};
}

}  // namespace

uint32_t Scenario::send(uint64_t us, const Way& way, Opcode opcode, uint32_t psn,
                        const Fields& fields) {
  wire::Path path;
  path.source_mac = mac_of(way.from);
  path.dest_mac = mac_of(way.to);
  path.source_gid = Gid::from_ipv4(way.from.ip);
  path.dest_gid = Gid::from_ipv4(way.to.ip);
  path.source_port = way.source_port;
  wire::PacketSpec spec;
  spec.path = &path;
  spec.opcode = opcode;
  spec.psn = Psn(psn);
  spec.ip_id = ++ip_id_;
  spec.dest_qpn = way.dest_qpn;
  spec.source_qpn = fields.source_qpn;
  spec.dma_length = fields.dma_length;
  spec.syndrome = fields.syndrome;
  spec.payload_bytes = fields.payload_bytes;
  std::vector<uint8_t> frame(wire::frame_bytes(spec));
  wire::emit_headers(spec, frame.data());
  wire::finish(spec, frame.data());
  return raw(us, std::move(frame));
}

uint32_t Scenario::repeat(uint64_t us, uint32_t number) {
  return raw(us, std::vector<uint8_t>(frame(number)));
}

uint32_t Scenario::raw(uint64_t us, std::vector<uint8_t> frame) {
  CapturedFrame captured;
  captured.time = 1'000'000'000 + static_cast<Timestamp>(us) * 1000;
  captured.wire_bytes = static_cast<uint32_t>(frame.size());
  captured.bytes = std::move(frame);
  capture_.frames.push_back(std::move(captured));
  return static_cast<uint32_t>(capture_.frames.size());
}

void Scenario::cut(uint32_t number, size_t bytes) {
  CapturedFrame& frame = capture_.frames[number - 1];
  frame.missing_bytes = static_cast<uint32_t>(frame.bytes.size() - bytes);
  frame.bytes.resize(bytes);
}

const Trace& Scenario::analyse() {
  trace_ = trace::analyse(capture_);
  return trace_;
}

}  // namespace verbena::trace::test
