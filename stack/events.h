// What a device wants its clients told, beyond completion entries.
#pragma once

#include <cstdint>

#include "stack/types.h"

namespace verbena {

// The numbers of enum ibv_event_type.
enum class AsyncEventType : uint8_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortErr = 10,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kGidChange = 18,
};

struct DeviceEvent {
  enum class Kind : uint8_t {
    kCompletion,  // an armed CQ has a new entry: wake the channel of `cq`
    kCqAsync,     // async event of a CQ
    kQpAsync,     // async event of a QP
    kSrqAsync,    // async event of an SRQ
  };
  Kind kind = Kind::kCompletion;
  AsyncEventType async = AsyncEventType::kCqErr;
  ClientId client = 0;
  uint32_t object = 0;       // CqId, Qpn or SrqId
  uint64_t user_handle = 0;  // as given at creation
};

}  // namespace verbena
