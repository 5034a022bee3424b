// Fabric: stations and what connects them, with a virtual clock.
//
// A station that is attached to no link sends into an ideal wire: frames arrive in no time, in
// order, at the station that has their destination MAC, and the filter may say otherwise. cable()
// and attach() put links of `network` under stations: frames then go where those lead, and of a
// filter's word only `drop` and `corrupt` are heeded. Nothing here knows the protocol.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/sim/network.h"
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
  ~Fabric();

  // Called when a device breaks a rule of its own, which ends the process unless replaced.
  std::function<void(const std::string&)> on_fault;
  Timestamp now = 1'000'000;
  uint32_t sink_capacity = UINT32_MAX;  // frames that one poll or burst may add
  uint32_t poll_budget = 64;
  Filter filter;
  // Called for each frame that station `from` sends, before the network has it.
  std::function<void(size_t from, Frame& frame, const wire::ParsedPacket& packet)> on_send;
  // Called for each frame that reaches a station, before its device sees it.
  std::function<void(size_t to, const Frame& frame)> on_deliver;
  bool record = true;
  std::vector<std::vector<uint8_t>> sent;  // when recording: all frames as sent,
  std::vector<TxNote> notes;               // why,
  std::vector<RxVerdict> verdicts;         // and what became of all that were received
  Network network;                         // outlives all that is below

  // `cqe`: entries of the station's own completion queue.
  Station& add(const DeviceConfig& config, size_t memory_bytes = 1 << 20, uint32_t cqe = 1024);
  Station& station(size_t i) { return *stations_[i]; }
  const Station& station(size_t i) const { return *stations_[i]; }
  size_t size() const { return stations_.size(); }

  // A cable between two stations: one link each way. `seed` is that of the faults.
  void cable(size_t a, size_t b, const LinkConfig& a_to_b, const LinkConfig& b_to_a, uint64_t seed);
  // A cable between a station and a switch, which learns the way. `up` needs a queue of at least
  // one largest frame.
  void attach(size_t station, Switch& to, const LinkConfig& up, const LinkConfig& down,
              uint64_t seed);

  // Delivers what is due, fires timers, lets every device send. False when nothing happened.
  bool step();
  // Steps and lets time pass until nothing is in flight and no timer runs, or until `limit`.
  // False: the limit was reached.
  bool drive_until(Timestamp limit);
  // True: became idle within `duration`.
  bool drive_bounded(DurationNs duration) { return drive_until(now + duration); }
  void inject(size_t to, const std::vector<uint8_t>& frame, DurationNs delay = 0);
  // When something will happen by itself, or kNever.
  Timestamp next_time() const;
  size_t frames_in_flight() const { return network.frames().outstanding(); }

 private:
  // Where frames for a station arrive: they wait for the device's next burst.
  class Port;
  class Sink;
  struct Arrival {
    size_t to;
    FramePtr frame;
  };

  void take(size_t from, FramePtr frame, const TxNote& note);
  bool deliver_due();
  void deliver_burst();
  bool fire_timers();
  bool poll_all();

  std::vector<std::unique_ptr<Station>> stations_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Link*> uplinks_;        // null: the ideal wire
  std::vector<bool> waits_for_room_;  // in its uplink, which says when there is some
  std::deque<Arrival> arrivals_;
};

}  // namespace verbena::sim
