#include "dpdk/serve.h"

#include <array>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "dpdk/control_server.h"
#include "dpdk/daemon.h"
#include "dpdk/eal.h"
#include "dpdk/log.h"
#include "dpdk/sysfs_tree.h"

namespace verbena {
namespace {

// What needs no DPDK. Made while EAL measures the speed of the clock, which takes it 100 ms.
struct Prepared {
  std::array<std::unique_ptr<Device>, 2> devices;
  std::unique_ptr<SysfsTree> sysfs;
};

Prepared prepare(const Options& options) {
  const auto& identity = options.devices;
  Prepared prepared;
  for (size_t i = 0; i < prepared.devices.size(); ++i) {
    prepared.devices[i] = std::make_unique<Device>(device_config(identity[i], identity[1 - i]));
  }
  prepared.sysfs = std::make_unique<SysfsTree>(options.dir, identity);
  return prepared;
}

}  // namespace

void serve(const Options& options, InstanceDir& dir, const std::function<void()>& serving) {
  auto preparing = std::async(std::launch::async, prepare, std::cref(options));
  const Eal eal(options.dir);
  const Clock clock;
  auto page = SharedRegion::create("verbena-worker", sizeof(abi::WorkerPage),
                                   SharedRegion::ClientAccess::kReadOnly);
  if (!page.ok()) throw std::runtime_error("no memory for the page shared with clients");
  const auto& identity = options.devices;
  Wire wire({identity[0].mac(), identity[1].mac()}, options.faults, clock);
  Worker worker({!options.poll, DurationNs{options.idle_ms} * 1'000'000}, clock,
                reinterpret_cast<abi::WorkerPage*>(page->base()));
  Prepared prepared = preparing.get();
  std::array<DeviceSlot, 2> devices;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    devices[i] = {identity[i], std::move(prepared.devices[i]), &wire.end(i)};
    worker.add_device(devices[i].device.get(), devices[i].port);
  }
  RingBudget ring_budget(memory_for_rings());
  Daemon daemon{options, devices, wire, worker, *page, ring_budget};
  ControlServer control(daemon, dir, *prepared.sysfs);
  std::thread control_thread([&] { control.run(); });
  log::info("serving {} ({}) and {} ({}) in {}", identity[0].name, identity[0].ip_text(),
            identity[1].name, identity[1].ip_text(), options.dir);
  serving();
  worker.run();
  control_thread.join();
}

}  // namespace verbena
