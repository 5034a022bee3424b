// What a client asks for: the specifications of the objects that a Device makes.
#pragma once

#include <cstdint>

#include "stack/abi/control.h"
#include "stack/types.h"

namespace verbena {

// A region of shared memory holding a ring. Not owned; must stay mapped until the object using it
// is destroyed (or, for a CQ, resized).
struct Region {
  uint8_t* base = nullptr;
  uint64_t bytes = 0;
};

struct MrSpec {
  PdId pd = 0;
  uint32_t access = 0;  // bits of enum ibv_access_flags
  uint64_t va = 0;      // client address of the first byte
  uint64_t length = 0;
  uint64_t iova = 0;  // address of the first byte in work requests and on the wire
};
struct MrKeys {
  uint32_t handle = 0;
  Key lkey = 0;
  Key rkey = 0;
};

struct CqSpec {
  uint64_t user_handle = 0;
  uint32_t depth = 0;  // ring entries, a power of two
  bool has_channel = false;
  Region region;  // cq_region_bytes(depth)
};

struct QpSpec {
  uint64_t user_handle = 0;
  QpType type = QpType::kRc;
  PdId pd = 0;
  CqId send_cq = 0;
  CqId recv_cq = 0;
  SrqId srq = 0;  // 0: the queue pair has a receive queue of its own
  bool sq_sig_all = false;
  abi::QpLayout layout;  // from qp_layout()
  Region region;         // layout.region_bytes
};

struct SrqSpec {
  uint64_t user_handle = 0;
  PdId pd = 0;
  uint32_t limit = 0;
  abi::SrqLayout layout;  // from srq_layout()
  Region region;          // layout.region_bytes
};

// Access bits of enum ibv_access_flags.
enum Access : uint32_t {
  kAccessLocalWrite = 1 << 0,
  kAccessRemoteWrite = 1 << 1,
  kAccessRemoteRead = 1 << 2,
  kAccessRemoteAtomic = 1 << 3,
  kAccessMwBind = 1 << 4,
};

}  // namespace verbena
