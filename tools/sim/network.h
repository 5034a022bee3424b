// The network of the simulator: links with delay, bandwidth and faults, and switches with finite
// queues, in virtual time. It carries frames and knows nothing of devices or of the protocol.
//
// A Link is one direction of a cable, with the queue before it: the transmit queue of an adapter or
// the output queue of a switch port. Every fault belongs to a link, so the two directions of a
// cable fail independently. A Switch forwards by destination MAC; all its queueing is in the links
// that leave it. Whoever takes frames at the end of a link is a Receiver.
//
//   adapter A ── link ──▶ Switch ── link (finite queue) ──▶ adapter B
//             ◀── link ──        ◀── link ──────────────────
//
// Determinism: events happen in the order of their times, those of one time in the order in which
// they were made; each kind of fault of each link draws from a stream of its own, so one fault can
// be switched off without moving the others. Nothing here is for several threads.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "stack/base/time.h"
#include "stack/types.h"
#include "tools/sim/frame.h"
#include "tools/sim/random.h"

namespace verbena::sim {

class Network;

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void receive(FramePtr frame, Timestamp now) = 0;

 protected:
  Receiver() = default;
  Receiver(const Receiver&) = default;
  Receiver& operator=(const Receiver&) = default;
};

// What a link does wrong. Rates are per million frames.
struct Faults {
  uint32_t drop_ppm = 0;
  uint32_t duplicate_ppm = 0;
  uint32_t corrupt_ppm = 0;            // one to three bits turned, anywhere in the frame
  uint32_t truncate_ppm = 0;           // cut to a random length of at least 14 bytes
  uint32_t reorder_ppm = 0;            // held back until frames behind it have passed:
  uint32_t reorder_frames = 64;        // one to so many,
  DurationNs reorder_hold = 100'000;   // or until this time is over
  DurationNs jitter = 0;               // each frame is late by up to so much; the order is kept
  Timestamp blackhole_from = kNever;   // all frames vanish, from here ...
  Timestamp blackhole_until = kNever;  // ... until here
};

struct LinkConfig {
  uint64_t bits_per_second = 0;       // 0: a frame takes no time to send and never queues
  DurationNs delay = 0;               // from the last bit sent to the last bit received
  uint64_t queue_bytes = UINT64_MAX;  // waiting and being sent; what does not fit is dropped
  Faults faults;
};

// offered + duplicated = overflowed + blackholed + dropped + arrived + still on the way.
struct LinkStats {
  uint64_t offered = 0;
  uint64_t overflowed = 0;
  uint64_t blackholed = 0;
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t arrived = 0;
  // These arrive all the same.
  uint64_t corrupted = 0;
  uint64_t truncated = 0;
  uint64_t reordered = 0;
};

class Link {
 public:
  // `seed`: of its faults. The network and the receiver must outlive the link.
  Link(Network& network, const LinkConfig& config, Receiver& to, uint64_t seed);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(FramePtr frame, Timestamp now);

  // True when a frame of that size, sent now, would not overflow the queue.
  bool has_room(uint64_t bytes) const { return bytes <= config_.queue_bytes - queued_bytes_; }
  uint64_t queued_bytes() const { return queued_bytes_; }
  const LinkStats& stats() const { return stats_; }
  LinkConfig& config() { return config_; }

 private:
  friend Network;
  enum Stream : uint8_t { kDrop, kDuplicate, kCorrupt, kTruncate, kReorder, kJitter, kStreams };
  struct Held {
    FramePtr frame;
    uint32_t overtakers;
    Timestamp until;
  };

  void on_timer(Timestamp now);
  void on_arrival(FramePtr frame, Timestamp now);
  void start_sending(Timestamp now);
  void leave(FramePtr frame, Timestamp now);
  void travel(FramePtr frame, Timestamp now);
  void schedule_arrival(FramePtr frame, Timestamp at);
  void let_pass(Timestamp at);
  void corrupt(Frame& frame);
  bool hit(Stream stream, uint32_t ppm) { return ppm != 0 && random_[stream].chance_ppm(ppm); }

  Network& network_;
  LinkConfig config_;
  Receiver& to_;
  std::array<Random, kStreams> random_;
  std::deque<FramePtr> queue_;  // the front is being sent
  uint64_t queued_bytes_ = 0;
  Timestamp sent_at_ = kNever;  // when the front will have been sent
  Timestamp last_arrival_ = 0;
  std::vector<Held> held_;
  LinkStats stats_;
};

class Switch : public Receiver {
 public:
  // Frames to `mac` leave by `out`, which must outlive the switch.
  void route(const MacAddr& mac, Link& out) { routes_.push_back({mac, &out}); }
  void receive(FramePtr frame, Timestamp now) override;
  uint64_t unknown() const { return unknown_; }  // frames to nobody, dropped

 private:
  std::vector<std::pair<MacAddr, Link*>> routes_;
  uint64_t unknown_ = 0;
};

class Network {
 public:
  Network() = default;
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Both live as long as the network.
  Link& add_link(const LinkConfig& config, Receiver& to, uint64_t seed);
  Switch& add_switch();

  // The frame reaches `to` at `at`.
  void deliver(Receiver& to, FramePtr frame, Timestamp at);
  // All events up to and including `now`.
  void run_until(Timestamp now);
  // Of the next event, or kNever.
  Timestamp next_time() const { return events_.empty() ? kNever : events_.front().at; }

  FramePool& frames() { return frames_; }
  const FramePool& frames() const { return frames_; }
  const std::vector<std::unique_ptr<Link>>& links() const { return links_; }
  const std::vector<std::unique_ptr<Switch>>& switches() const { return switches_; }

 private:
  friend Link;
  struct Event {
    Timestamp at;
    uint64_t order;
    Receiver* to;  // a frame arrives, from `link` if it is set; null: a timer of `link`
    Link* link;
    Frame* frame;  // owned
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  void schedule(Timestamp at, Receiver* to, Link* link, FramePtr frame);

  FramePool frames_;
  std::vector<Event> events_;  // a heap, the next event first
  uint64_t next_order_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Switch>> switches_;
};

}  // namespace verbena::sim
