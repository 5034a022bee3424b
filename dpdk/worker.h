// Worker: the polling thread of all devices. Run to completion: receive, doorbells, timers, send,
// events; each round's work is bounded, so no client starves the others.
//
// Nothing here locks, logs, allocates or throws per packet. When rounds are empty the thread
// yields; after a while without work it sleeps on the kicks and the command queue.
//
// Thread rule: commands() and activity() may be used by other threads; all the rest runs on the
// polling thread, that is inside run() or inside a command.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "dpdk/clock.h"
#include "dpdk/command_queue.h"
#include "dpdk/event_router.h"
#include "dpdk/port.h"
#include "dpdk/unique_fd.h"
#include "stack/abi/ring.h"
#include "stack/device.h"

namespace verbena {

// One client as the polling thread sees it. Owned by the control thread, which detaches it first.
struct WorkerClient {
  uint32_t device = 0;  // index
  ClientId id = 0;
  abi::DoorbellPage* doorbells = nullptr;
  int kick_fd = -1;
};

class Worker {
 public:
  struct Policy {
    bool sleeps = true;
    DurationNs idle_ns = 50'000'000;  // without work before the first sleep
  };

  // `page` tells the clients that the thread sleeps. EAL must be up.
  Worker(const Policy& policy, const Clock& clock, abi::WorkerPage* page);

  // Before run(). Not owned.
  void add_device(Device* device, Port* port);

  // Until stop().
  void run();

  // ---- Other threads ----

  CommandQueue& commands() { return commands_; }
  // Changes when something was done that counters may tell of; with a command before it runs.
  uint64_t activity() const { return activity_.load(std::memory_order_relaxed); }

  // ---- Inside a command ----

  void stop() { stop_ = true; }
  void attach(WorkerClient* client);
  void detach(WorkerClient* client);
  EventRouter& events(uint32_t device) { return slots_[device].events; }
  // Hands on all events that a device has ready.
  void route_events(uint32_t device) { route_events(slots_[device]); }
  Timestamp now() { return clock_.now(); }

 private:
  struct Slot {
    Device* device;
    Port* port;
    EventRouter events;
  };

  uint32_t round(Timestamp now);
  uint32_t receive(Slot& slot, Timestamp now);
  uint32_t ring_doorbells(Timestamp now);
  void route_events(Slot& slot);

  void idle(Timestamp now);
  bool work_waits() const;
  Timestamp next_wake() const;
  void wait(int timeout_ms);
  void note_activity() {
    activity_.store(activity_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void take_kicks(WorkerClient* client);

  const Policy policy_;
  Clock clock_;
  abi::WorkerPage* const page_;
  CommandQueue commands_;
  UniqueFd epoll_;
  std::vector<RxVerdict> verdicts_;  // of a burst
  std::vector<Slot> slots_;
  std::vector<WorkerClient*> clients_;
  bool stop_ = false;
  uint32_t empty_rounds_ = 0;
  Timestamp last_work_ = 0;
  std::atomic<uint64_t> activity_{0};
};

}  // namespace verbena
