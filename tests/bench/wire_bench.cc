// Time per packet of the wire layer: ICRC over whole packets, parsing, emission of the headers.
//
// Frames are in the cache: the figures are a lower bound of what a packet costs.
#include <benchmark/benchmark.h>

#include <cstring>
#include <variant>
#include <vector>

#include "stack/wire/emit.h"
#include "stack/wire/icrc.h"
#include "stack/wire/parse.h"

namespace verbena::wire {
namespace {

constexpr size_t kEthernetBytes = 14;

Path make_path(bool ipv6) {
  Path path;
  path.source_mac.bytes = {0x02, 0, 0, 0, 0, 1};
  path.dest_mac.bytes = {0x02, 0, 0, 0, 0, 2};
  path.source_gid = Gid::from_ipv4(0x0A630001);
  path.dest_gid = Gid::from_ipv4(0x0A630002);
  if (ipv6) path.source_gid.bytes[0] = path.dest_gid.bytes[0] = 0xFD;
  return path;
}

PacketSpec make_spec(const Path& path, Opcode opcode, uint32_t payload_bytes) {
  PacketSpec spec;
  spec.path = &path;
  spec.opcode = opcode;
  spec.dest_qpn = 0x11;
  spec.psn = Psn(1000);
  spec.va = 0x7F0000001000;
  spec.rkey = 0x1234;
  spec.dma_length = payload_bytes;
  spec.payload_bytes = payload_bytes;
  return spec;
}

std::vector<uint8_t> make_frame(const PacketSpec& spec) {
  std::vector<uint8_t> frame(frame_bytes(spec));
  std::memset(emit_headers(spec, frame.data()), 0xA5, spec.payload_bytes);
  finish(spec, frame.data());
  return frame;
}

// The argument is the size of the payload of a WRITE Only.
void icrc_of_packet(benchmark::State& state, bool ipv6) {
  const Path path = make_path(ipv6);
  const std::vector<uint8_t> frame =
      make_frame(make_spec(path, Opcode::kWriteOnly, static_cast<uint32_t>(state.range(0))));
  const std::span<const uint8_t> ip =
      std::span(frame).subspan(kEthernetBytes, frame.size() - kEthernetBytes - kIcrcBytes);
  for (auto _ : state) benchmark::DoNotOptimize(icrc(ip));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(icrc_of_packet, ipv4, false)->RangeMultiplier(2)->Range(64, 4096);
BENCHMARK_CAPTURE(icrc_of_packet, ipv6, true)->Arg(64)->Arg(4096);

void parse_packet(benchmark::State& state, bool ipv6, Opcode opcode) {
  const Path path = make_path(ipv6);
  const std::vector<uint8_t> frame =
      make_frame(make_spec(path, opcode, opcode == Opcode::kWriteOnly ? 4096 : 0));
  for (auto _ : state) {
    auto parsed = parse(frame);
    if (!std::holds_alternative<ParsedPacket>(parsed)) state.SkipWithError("frame was dropped");
    benchmark::DoNotOptimize(parsed);
  }
}
BENCHMARK_CAPTURE(parse_packet, ipv4_write_only, false, Opcode::kWriteOnly);
BENCHMARK_CAPTURE(parse_packet, ipv4_acknowledge, false, Opcode::kAcknowledge);
BENCHMARK_CAPTURE(parse_packet, ipv6_write_only, true, Opcode::kWriteOnly);

void emit_packet_headers(benchmark::State& state, bool ipv6, Opcode opcode) {
  const Path path = make_path(ipv6);
  const PacketSpec spec = make_spec(path, opcode, opcode == Opcode::kWriteOnly ? 4096 : 0);
  std::vector<uint8_t> frame(frame_bytes(spec));
  for (auto _ : state) {
    benchmark::DoNotOptimize(emit_headers(spec, frame.data()));
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(emit_packet_headers, ipv4_write_only, false, Opcode::kWriteOnly);
BENCHMARK_CAPTURE(emit_packet_headers, ipv4_acknowledge, false, Opcode::kAcknowledge);
BENCHMARK_CAPTURE(emit_packet_headers, ipv6_write_only, true, Opcode::kWriteOnly);

}  // namespace
}  // namespace verbena::wire

BENCHMARK_MAIN();
