// EventQueue: what a device has to tell its clients, until poll_event() takes it. Fixed capacity.
#pragma once

#include "stack/base/fixed_ring.h"
#include "stack/events.h"

namespace verbena {

using EventQueue = FixedRing<DeviceEvent>;

}  // namespace verbena
