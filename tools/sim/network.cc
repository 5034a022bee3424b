#include "tools/sim/network.h"

#include <algorithm>
#include <functional>

namespace verbena::sim {
namespace {

constexpr uint32_t kShortestFrame = 14;  // an Ethernet header
constexpr uint64_t kBitsPerByte = 8;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

Link::Link(Network& network, const LinkConfig& config, Receiver& to, uint64_t seed)
    : network_(network), config_(config), to_(to), random_{Random(seed, kDrop),
                                                           Random(seed, kDuplicate),
                                                           Random(seed, kCorrupt),
                                                           Random(seed, kTruncate),
                                                           Random(seed, kReorder),
                                                           Random(seed, kJitter)} {}

void Link::send(FramePtr frame, Timestamp now) {
  ++stats_.offered;
  if (config_.bits_per_second == 0) return leave(std::move(frame), now);
  if (!has_room(frame->bytes)) {
    ++stats_.overflowed;
    return;
  }
  queued_bytes_ += frame->bytes;
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) start_sending(now);
}

void Link::start_sending(Timestamp now) {
  const uint64_t bits = queue_.front()->bytes * kBitsPerByte;
  sent_at_ = now + bits * kNsPerSecond / config_.bits_per_second;
  network_.schedule(sent_at_, nullptr, this, nullptr);
}

void Link::on_timer(Timestamp now) {
  if (!queue_.empty() && sent_at_ <= now) {
    FramePtr frame = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= frame->bytes;
    if (!queue_.empty()) start_sending(now);
    leave(std::move(frame), now);
  }
  for (Held& held : held_) {
    if (held.until <= now) schedule_arrival(std::move(held.frame), now + config_.delay);
  }
  std::erase_if(held_, [](const Held& held) { return held.frame == nullptr; });
}

void Link::leave(FramePtr frame, Timestamp now) {
  const Faults& faults = config_.faults;
  if (now >= faults.blackhole_from && now < faults.blackhole_until) {
    ++stats_.blackholed;
    return;
  }
  if (hit(kDrop, faults.drop_ppm)) {
    ++stats_.dropped;
    return;
  }
  const bool twice = hit(kDuplicate, faults.duplicate_ppm);
  FramePtr twin;
  if (twice) twin = network_.frames().copy(*frame);
  if (hit(kTruncate, faults.truncate_ppm)) {
    // In a buffer of its own, so that a read beyond the new end is noticed.
    auto cut = network_.frames().take(
        random_[kTruncate].between(std::min(kShortestFrame, frame->bytes - 1), frame->bytes - 1));
    std::copy_n(frame->data.get(), cut->bytes, cut->data.get());
    cut->flips = frame->flips;
    cut->flipped = frame->flipped;
    cut->truncated = true;
    frame = std::move(cut);
    ++stats_.truncated;
  }
  if (hit(kCorrupt, faults.corrupt_ppm)) corrupt(*frame);
  travel(std::move(frame), now);
  if (!twice) return;
  ++stats_.duplicated;
  travel(std::move(twin), now);
}

void Link::corrupt(Frame& frame) {
  ++stats_.corrupted;
  const uint32_t bits = random_[kCorrupt].between(1, 3);
  for (uint32_t i = 0; i < bits && frame.flips < Frame::kMaxFlips; ++i) {
    const uint32_t bit = random_[kCorrupt].between(0, frame.bytes * 8 - 1);
    frame.data[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    frame.flipped[frame.flips++] = bit;
  }
}

void Link::travel(FramePtr frame, Timestamp now) {
  const Faults& faults = config_.faults;
  if (hit(kReorder, faults.reorder_ppm)) {
    ++stats_.reordered;
    const Timestamp until = now + faults.reorder_hold;
    held_.push_back({std::move(frame), random_[kReorder].between(1, faults.reorder_frames), until});
    return network_.schedule(until, nullptr, this, nullptr);
  }
  Timestamp at = now + config_.delay;
  if (faults.jitter != 0) {
    at += random_[kJitter].between(0, static_cast<uint32_t>(faults.jitter));
  }
  at = last_arrival_ = std::max(at, last_arrival_);
  schedule_arrival(std::move(frame), at);
  if (!held_.empty()) let_pass(at);
}

// A frame has overtaken those that are held.
void Link::let_pass(Timestamp at) {
  for (Held& held : held_) {
    if (--held.overtakers == 0) schedule_arrival(std::move(held.frame), at);
  }
  std::erase_if(held_, [](const Held& held) { return held.frame == nullptr; });
}

void Link::schedule_arrival(FramePtr frame, Timestamp at) {
  network_.schedule(at, &to_, this, std::move(frame));
}

void Link::on_arrival(FramePtr frame, Timestamp now) {
  ++stats_.arrived;
  to_.receive(std::move(frame), now);
}

void Switch::receive(FramePtr frame, Timestamp now) {
  const std::span<const uint8_t> mac = frame->view().first<6>();
  for (const auto& [known, out] : routes_) {
    if (std::equal(mac.begin(), mac.end(), known.bytes.begin())) {
      return out->send(std::move(frame), now);
    }
  }
  ++unknown_;
}

Network::~Network() {
  for (const Event& event : events_) {
    if (event.frame != nullptr) FrameReturn{&frames_}(event.frame);
  }
}

Link& Network::add_link(const LinkConfig& config, Receiver& to, uint64_t seed) {
  return *links_.emplace_back(std::make_unique<Link>(*this, config, to, seed));
}

Switch& Network::add_switch() {
  return *switches_.emplace_back(std::make_unique<Switch>());
}

void Network::deliver(Receiver& to, FramePtr frame, Timestamp at) {
  schedule(at, &to, nullptr, std::move(frame));
}

void Network::schedule(Timestamp at, Receiver* to, Link* link, FramePtr frame) {
  events_.push_back({at, next_order_++, to, link, frame.release()});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void Network::run_until(Timestamp now) {
  while (!events_.empty() && events_.front().at <= now) {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    const Event event = events_.back();
    events_.pop_back();
    FramePtr frame(event.frame, FrameReturn{&frames_});
    if (event.to == nullptr) {
      event.link->on_timer(event.at);
    } else if (event.link != nullptr) {
      event.link->on_arrival(std::move(frame), event.at);
    } else {
      event.to->receive(std::move(frame), event.at);
    }
  }
}

}  // namespace verbena::sim
