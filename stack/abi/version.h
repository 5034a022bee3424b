// The contract between a client (the provider in an application) and the daemon: control messages
// on a socket (control.h) and rings in shared memory (ring.h, wqe.h, cqe.h).
//
// Both sides are built from these headers. A client whose version differs is refused at open with
// EPROTO. Everything is little-endian and of fixed width; reserved fields are zero and checked.
#pragma once

#include <cstdint>

namespace verbena::abi {

inline constexpr uint32_t kAbiVersion = 2;

}  // namespace verbena::abi
