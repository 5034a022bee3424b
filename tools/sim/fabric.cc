#include "tools/sim/fabric.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace verbena::sim {
namespace {

constexpr size_t kBurst = 32;

}  // namespace

Fabric::Fabric()
    : on_fault([](const std::string& what) {
        std::fprintf(stderr, "simulator: %s\n", what.c_str());
        std::abort();
      }) {}

// Frames are built in heap buffers of exactly the size that was asked for.
class Fabric::Sink : public TxSink {
 public:
  explicit Sink(Fabric& fabric) : fabric_(fabric), left_(fabric.sink_capacity) {}

  bool allocate(uint32_t bytes, TxFrame& frame) override {
    if (bytes > kMaxFrameBytes) fabric_.on_fault("a frame larger than the largest");
    if (left_ == 0) return false;
    --left_;
    auto* buffer = new std::vector<uint8_t>(bytes);
    frame.data = buffer->data();
    frame.handle = buffer;
    return true;
  }
  void commit(const TxFrame& frame, uint32_t bytes) override {
    auto* buffer = static_cast<std::vector<uint8_t>*>(frame.handle);
    if (bytes != buffer->size()) fabric_.on_fault("a frame of another size than was asked for");
    fabric_.take(std::move(*buffer));
    delete buffer;
  }
  void release(const TxFrame& frame) override {
    ++left_;
    delete static_cast<std::vector<uint8_t>*>(frame.handle);
  }

 private:
  Fabric& fabric_;
  uint32_t left_;
};

Station& Fabric::add(const DeviceConfig& config, size_t memory_bytes) {
  stations_.push_back(std::make_unique<Station>(config, memory_bytes));
  return *stations_.back();
}

void Fabric::inject(size_t to, std::vector<uint8_t> frame, DurationNs delay) {
  const Timestamp at = now + delay;
  const auto later = std::upper_bound(in_flight_.begin(), in_flight_.end(), at,
                                      [](Timestamp t, const InFlight& f) { return t < f.at; });
  in_flight_.insert(later, {at, to, std::move(frame)});
}

void Fabric::take(std::vector<uint8_t> frame) {
  const auto parsed = wire::parse(frame);
  const auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
  if (packet == nullptr || !wire::icrc_valid(*packet)) {
    return on_fault("a device sent a broken frame");
  }
  if (record) sent.push_back(frame);
  size_t to = 0;
  while (to < size() && station(to).device.config().mac != packet->dest_mac) ++to;
  if (to == size()) return;
  const Fate fate = filter ? filter(*packet) : Fate{};
  if (fate.drop) return;
  if (fate.corrupt) frame[frame.size() - 1 - packet->psn.value() % 12] ^= 0x10;
  for (uint32_t copy = 1; copy < fate.copies; ++copy) inject(to, frame, fate.delay);
  inject(to, std::move(frame), fate.delay);
}

bool Fabric::deliver_due() {
  bool any = false;
  while (!in_flight_.empty() && in_flight_.front().at <= now) {
    // A burst is what is due for one device without a break.
    std::vector<InFlight> burst;
    const size_t to = in_flight_.front().to;
    while (burst.size() < kBurst && !in_flight_.empty() && in_flight_.front().at <= now &&
           in_flight_.front().to == to) {
      burst.push_back(std::move(in_flight_.front()));
      in_flight_.pop_front();
    }
    std::vector<RxFrame> frames;
    for (const InFlight& f : burst) {
      frames.push_back({f.frame.data(), static_cast<uint32_t>(f.frame.size())});
    }
    Sink sink(*this);
    station(to).device.on_burst(frames, now, sink);
    any = true;
  }
  return any;
}

bool Fabric::fire_timers() {
  bool any = false;
  for (auto& s : stations_) {
    if (s->device.next_timeout() > now) continue;
    s->device.on_timeout(now);
    any = true;
  }
  return any;
}

bool Fabric::poll_all() {
  bool any = false;
  for (auto& s : stations_) {
    Sink sink(*this);
    any |= s->device.poll(now, sink, poll_budget) != 0;
    while (const auto event = s->device.poll_event()) s->events.push_back(*event);
  }
  return any;
}

bool Fabric::step() {
  const bool delivered = deliver_due();
  const bool fired = fire_timers();
  const bool polled = poll_all();
  return delivered || fired || polled;
}

Timestamp Fabric::next_time() const {
  Timestamp next = in_flight_.empty() ? kNever : in_flight_.front().at;
  for (const auto& s : stations_) {
    next = std::min(next, s->device.next_timeout());
    // Work that could not be done just now: a full sink, or memory that is not ready.
    if (s->device.has_work()) next = std::min(next, now + 1000);
  }
  return next;
}

bool Fabric::drive_until(Timestamp limit) {
  for (uint32_t steps = 0; steps < 1'000'000; ++steps) {
    if (step()) continue;
    const Timestamp next = next_time();
    if (next == kNever) return true;
    if (next > limit) {
      now = limit;
      return false;
    }
    now = std::max(now, next);
  }
  on_fault("a million steps without coming to rest");
  return false;
}

}  // namespace verbena::sim
