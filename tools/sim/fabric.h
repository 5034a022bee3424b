// Fabric: stations on a simulated wire with a virtual clock.
//
// Frames travel in virtual time; by default in no time and in order. A filter sees each one and
// says what becomes of it. Nothing here knows the protocol.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/sim/station.h"

namespace verbena::sim {

// What becomes of a frame.
struct Fate {
  bool drop = false;
  uint32_t copies = 1;
  DurationNs delay = 0;
  bool corrupt = false;
};

class Fabric {
 public:
  using Filter = std::function<Fate(const wire::ParsedPacket&)>;

  Fabric();

  // Called when a device breaks a rule of its own, which ends the process unless replaced.
  std::function<void(const std::string&)> on_fault;
  Timestamp now = 1'000'000;
  uint32_t sink_capacity = UINT32_MAX;  // frames that one poll or burst may add
  uint32_t poll_budget = 64;
  Filter filter;
  bool record = true;
  std::vector<std::vector<uint8_t>> sent;  // when recording: all frames as sent

  Station& add(const DeviceConfig& config, size_t memory_bytes = 1 << 20);
  Station& station(size_t i) { return *stations_[i]; }
  size_t size() const { return stations_.size(); }

  // Delivers what is due, fires timers, lets every device send. False when nothing happened.
  bool step();
  // Steps and lets time pass until nothing is in flight and no timer runs, or until `limit`.
  // False: the limit was reached.
  bool drive_until(Timestamp limit);
  // True: became idle within `duration`.
  bool drive_bounded(DurationNs duration) { return drive_until(now + duration); }
  void inject(size_t to, std::vector<uint8_t> frame, DurationNs delay = 0);
  // When something will happen by itself, or kNever.
  Timestamp next_time() const;
  size_t frames_in_flight() const { return in_flight_.size(); }

 private:
  struct InFlight {
    Timestamp at;
    size_t to;
    std::vector<uint8_t> frame;
  };
  class Sink;

  void take(std::vector<uint8_t> frame);
  bool deliver_due();
  bool fire_timers();
  bool poll_all();

  std::vector<std::unique_ptr<Station>> stations_;
  std::deque<InFlight> in_flight_;  // by time, then by order of sending
};

}  // namespace verbena::sim
