// Daemon: what the parts of verbenad share. Made before the control thread starts, outlives it.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "dpdk/identity.h"
#include "dpdk/options.h"
#include "dpdk/ring_budget.h"
#include "dpdk/shm.h"
#include "dpdk/wire_port.h"
#include "dpdk/worker.h"
#include "stack/device.h"

namespace verbena {

struct DeviceSlot {
  DeviceIdentity identity;
  std::unique_ptr<Device> device;  // polling thread only
  WirePort* port = nullptr;        // polling thread only
};

struct Daemon {
  const Options& options;
  std::array<DeviceSlot, 2>& devices;
  Wire& wire;  // polling thread only
  Worker& worker;
  const SharedRegion& worker_page;
  RingBudget& ring_budget;  // control thread only
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

}  // namespace verbena
