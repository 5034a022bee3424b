// Changes the numbers in a captured frame that mean something to its receiver alone, QPN and keys,
// and for a live device the addresses. ICRC and checksums follow; one that was wrong stays wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stack/types.h"

namespace verbena::conformance {

// Where the BTH of a RoCEv2 frame begins, however broken the rest is.
std::optional<size_t> find_bth(std::span<const uint8_t> frame);
// The destination QPN of such a frame.
std::optional<Qpn> dest_qpn_of(std::span<const uint8_t> frame);

// A host of the capture, and the one that takes its place.
struct Substitute {
  MacAddr mac;
  Gid gid;
  MacAddr new_mac;
  Gid new_gid;  // IPv4 for IPv4, IPv6 for IPv6
};

struct FrameEdit {
  std::optional<Qpn> dest_qpn;
  std::optional<Key> rkey;             // RETH, AtomicETH
  std::optional<Key> invalidate_rkey;  // IETH
  std::vector<Substitute> hosts;
};

std::vector<uint8_t> edited(std::span<const uint8_t> frame, const FrameEdit& edit);

}  // namespace verbena::conformance
