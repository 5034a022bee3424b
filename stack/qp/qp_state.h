// The queue pair state machine as a table (IBTA vol. 1 ch. 10.3.1 and 11.2.5.2).
//
//   RESET --> INIT --> RTR --> RTS <--> SQD          any --> RESET
//               ^|              |                    any but RESET --> ERR
//               +'INIT->INIT    '--> SQE --> RTS (UC, UD)
//
// For each transition and transport: the attributes that must be given and those that may be.
#pragma once

#include <cstdint>

#include "stack/base/result.h"
#include "stack/types.h"

namespace verbena {

// Bits of enum ibv_qp_attr_mask.
enum QpAttrBit : uint32_t {
  kAttrState = 1 << 0,
  kAttrCurState = 1 << 1,
  kAttrEnSqdAsyncNotify = 1 << 2,
  kAttrAccessFlags = 1 << 3,
  kAttrPkeyIndex = 1 << 4,
  kAttrPort = 1 << 5,
  kAttrQkey = 1 << 6,
  kAttrAv = 1 << 7,
  kAttrPathMtu = 1 << 8,
  kAttrTimeout = 1 << 9,
  kAttrRetryCnt = 1 << 10,
  kAttrRnrRetry = 1 << 11,
  kAttrRqPsn = 1 << 12,
  kAttrMaxQpRdAtomic = 1 << 13,
  kAttrAltPath = 1 << 14,
  kAttrMinRnrTimer = 1 << 15,
  kAttrSqPsn = 1 << 16,
  kAttrMaxDestRdAtomic = 1 << 17,
  kAttrPathMigState = 1 << 18,
  kAttrCap = 1 << 19,
  kAttrDestQpn = 1 << 20,
  kAttrRateLimit = 1 << 25,
};

// EINVAL unless the transition exists, `mask` holds all required attributes, and nothing beyond
// required, optional and STATE.
Status check_transition(QpType type, QpState from, QpState to, uint32_t mask);

}  // namespace verbena
