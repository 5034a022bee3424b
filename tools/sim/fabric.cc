#include "tools/sim/fabric.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace verbena::sim {
namespace {

constexpr size_t kBurst = 32;
// Until a device that could not do its work is polled again.
constexpr DurationNs kPollAgain = 1000;

}  // namespace

class Fabric::Port : public Receiver {
 public:
  Port(Fabric& fabric, size_t station) : fabric_(fabric), station_(station) {}
  void receive(FramePtr frame, Timestamp) override {
    fabric_.arrivals_.push_back({station_, std::move(frame)});
  }

 private:
  Fabric& fabric_;
  size_t station_;
};

// Frames are built in buffers of exactly the size that was asked for.
class Fabric::Sink : public TxSink {
 public:
  Sink(Fabric& fabric, size_t station)
      : fabric_(fabric), station_(station), left_(fabric.sink_capacity) {}

  bool allocate(uint32_t bytes, TxFrame& frame) override {
    if (bytes > kMaxFrameBytes) fabric_.on_fault("a frame larger than the largest");
    const Link* uplink = fabric_.uplinks_[station_];
    if (left_ == 0) return false;
    if (uplink != nullptr && !uplink->has_room(open_bytes_ + bytes)) {
      fabric_.waits_for_room_[station_] = true;
      return false;
    }
    --left_;
    open_bytes_ += bytes;
    Frame* buffer = fabric_.network.frames().take(bytes).release();
    frame.data = buffer->data.get();
    frame.handle = buffer;
    return true;
  }
  void commit(const TxFrame& frame, uint32_t bytes) override {
    FramePtr buffer = back(frame);
    if (bytes != buffer->bytes) fabric_.on_fault("a frame of another size than was asked for");
    fabric_.take(station_, std::move(buffer), frame.note);
  }
  void release(const TxFrame& frame) override {
    ++left_;
    (void)back(frame);
  }

 private:
  FramePtr back(const TxFrame& frame) {
    auto* buffer = static_cast<Frame*>(frame.handle);
    open_bytes_ -= buffer->bytes;
    return {buffer, FrameReturn{&fabric_.network.frames()}};
  }

  Fabric& fabric_;
  size_t station_;
  uint32_t left_;
  uint64_t open_bytes_ = 0;  // allocated and neither committed nor released
};

Fabric::Fabric()
    : on_fault([](const std::string& what) {
        std::fprintf(stderr, "simulator: %s\n", what.c_str());
        std::abort();
      }) {}

Fabric::~Fabric() = default;

Station& Fabric::add(const DeviceConfig& config, size_t memory_bytes, uint32_t cqe) {
  ports_.push_back(std::make_unique<Port>(*this, stations_.size()));
  uplinks_.push_back(nullptr);
  waits_for_room_.push_back(false);
  return *stations_.emplace_back(std::make_unique<Station>(config, memory_bytes, cqe));
}

void Fabric::cable(size_t a, size_t b, const LinkConfig& a_to_b, const LinkConfig& b_to_a,
                   uint64_t seed) {
  uplinks_[a] = &network.add_link(a_to_b, *ports_[b], seed);
  uplinks_[b] = &network.add_link(b_to_a, *ports_[a], ~seed);
}

void Fabric::attach(size_t station, Switch& to, const LinkConfig& up, const LinkConfig& down,
                    uint64_t seed) {
  uplinks_[station] = &network.add_link(up, to, seed);
  to.route(stations_[station]->device.config().mac,
           network.add_link(down, *ports_[station], ~seed));
}

void Fabric::inject(size_t to, const std::vector<uint8_t>& frame, DurationNs delay) {
  FramePtr copy = network.frames().take(static_cast<uint32_t>(frame.size()));
  std::copy(frame.begin(), frame.end(), copy->data.get());
  network.deliver(*ports_[to], std::move(copy), now + delay);
}

void Fabric::take(size_t from, FramePtr frame, const TxNote& note) {
  const auto parsed = wire::parse(frame->view());
  const auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
  if (packet == nullptr || !wire::icrc_valid(*packet)) {
    return on_fault("a device sent a broken frame");
  }
  if (on_send) on_send(from, *frame, *packet);
  if (record) {
    sent.emplace_back(frame->view().begin(), frame->view().end());
    notes.push_back(note);
  }
  const Fate fate = filter ? filter(*packet) : Fate{};
  if (fate.drop) return;
  if (fate.corrupt) frame->view()[frame->bytes - 1 - packet->psn.value() % 12] ^= 0x10;
  if (uplinks_[from] != nullptr) return uplinks_[from]->send(std::move(frame), now);
  size_t to = 0;
  while (to < size() && station(to).device.config().mac != packet->dest_mac) ++to;
  if (to == size()) return;
  for (uint32_t copy = 1; copy < fate.copies; ++copy) {
    network.deliver(*ports_[to], network.frames().copy(*frame), now + fate.delay);
  }
  network.deliver(*ports_[to], std::move(frame), now + fate.delay);
}

// A burst is what is due for one device without a break.
void Fabric::deliver_burst() {
  std::array<FramePtr, kBurst> burst;
  std::array<RxFrame, kBurst> frames;
  const size_t to = arrivals_.front().to;
  size_t count = 0;
  while (count < kBurst && !arrivals_.empty() && arrivals_.front().to == to) {
    burst[count] = std::move(arrivals_.front().frame);
    arrivals_.pop_front();
    if (on_deliver) on_deliver(to, *burst[count]);
    frames[count] = {burst[count]->data.get(), burst[count]->bytes};
    ++count;
  }
  Sink sink(*this, to);
  std::array<RxVerdict, kBurst> told;
  station(to).device.on_burst({frames.data(), count}, now, sink, told);
  if (record) verdicts.insert(verdicts.end(), told.begin(), told.begin() + count);
}

bool Fabric::deliver_due() {
  bool any = false;
  for (;;) {
    network.run_until(now);
    if (arrivals_.empty()) return any;
    deliver_burst();
    any = true;
  }
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
  for (size_t i = 0; i < size(); ++i) {
    Station& s = station(i);
    waits_for_room_[i] = false;
    Sink sink(*this, i);
    any |= s.device.poll(now, sink, poll_budget) != 0;
    while (const auto event = s.device.poll_event()) s.events.push_back(*event);
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
  Timestamp next = network.next_time();
  for (size_t i = 0; i < size(); ++i) {
    const Device& device = station(i).device;
    next = std::min(next, device.next_timeout());
    // Work that could not be done just now: a full sink, or memory that is not ready.
    if (device.has_work() && !waits_for_room_[i]) next = std::min(next, now + kPollAgain);
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
