#include "tools/trace/path_mtu.h"

#include <algorithm>

namespace verbena::trace {
namespace {

constexpr PathMtu kMtus[] = {PathMtu::k256, PathMtu::k512, PathMtu::k1024, PathMtu::k2048,
                             PathMtu::k4096};
constexpr uint32_t kUsual = 1024;

bool is_mtu(uint32_t bytes) {
  return std::any_of(std::begin(kMtus), std::end(kMtus),
                     [&](PathMtu mtu) { return mtu_bytes(mtu) == bytes; });
}

// What the next request after a READ says about how many PSNs that took; 0 when it fits no path MTU
// or several.
uint32_t from_distance(uint32_t read_length, int32_t psns) {
  uint32_t found = 0;
  for (const PathMtu mtu : kMtus) {
    if (read_psn_count(read_length, mtu_bytes(mtu)) != static_cast<uint32_t>(psns)) continue;
    if (found != 0) return 0;
    found = mtu_bytes(mtu);
  }
  return found;
}

}  // namespace

void find_path_mtu(const Trace& trace, Connection& connection) {
  uint32_t largest = 0;
  uint32_t by_distance = 0;
  const wire::ParsedPacket* reads[2] = {nullptr, nullptr};
  for (const Index i : connection.packets) {
    const TracedPacket& traced = trace.packets[i];
    if (!traced.good()) continue;
    const wire::ParsedPacket& packet = *traced.packet;
    const OpcodeInfo& info = *packet.info;
    largest = std::max(largest, traced.payload_bytes);
    if (info.has_payload && !info.ends_message() && is_mtu(traced.payload_bytes)) {
      connection.path_mtu = std::max(connection.path_mtu, traced.payload_bytes);
      connection.path_mtu_known = true;
    }
    if (info.is_response() || info.operation == Operation::kCnp) continue;
    const wire::ParsedPacket*& read = reads[traced.side];
    if (read != nullptr && by_distance == 0) {
      by_distance = from_distance(read->dma_length, packet.psn - read->psn);
    }
    read = info.operation == Operation::kReadRequest ? &packet : nullptr;
  }
  if (connection.path_mtu_known) return;
  connection.path_mtu_known = by_distance != 0;
  connection.path_mtu = std::max(by_distance, kUsual);
  if (by_distance != 0) connection.path_mtu = by_distance;
  while (connection.path_mtu < largest && connection.path_mtu < mtu_bytes(PathMtu::k4096)) {
    connection.path_mtu *= 2;
  }
}

}  // namespace verbena::trace
