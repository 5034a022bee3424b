#include "dpdk/wire_port.h"

#include <rte_errno.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "stack/base/assert.h"

namespace verbena {
namespace {

// Two full queues and what is in the hands of the polling thread.
constexpr uint32_t kPoolFrames = 4095;
constexpr uint32_t kPoolCache = 256;
// A frame that others are to pass goes on when none has come for so long.
constexpr DurationNs kMaxHoldNs = 50'000;

// A frame's name in a capture, beside its buffer. Left from an earlier frame when there is no
// capture: another one will not know it.
uint64_t& tag_of(rte_mbuf* frame) {
  return *static_cast<uint64_t*>(rte_mbuf_to_priv(frame));
}

}  // namespace

WirePort::WirePort(uint32_t index, MacAddr mac, rte_mempool* pool, FaultModel& faults,
                   const Clock& clock)
    : index_(index), mac_(mac), pool_(pool), faults_(faults), clock_(clock) {
  const std::string name = "verbena_wire" + std::to_string(index);
  rx_ = rte_ring_create(name.c_str(), Wire::kQueueFrames, SOCKET_ID_ANY,
                        RING_F_SP_ENQ | RING_F_SC_DEQ);
  if (rx_ == nullptr) throw std::runtime_error("no memory for the wire's queues");
  delayed_.reserve(Wire::kQueueFrames);
}

WirePort::~WirePort() {
  void* frame;
  while (rx_ != nullptr && rte_ring_dequeue(rx_, &frame) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
  }
  for (uint32_t i = 0; i < held_count_; ++i) rte_pktmbuf_free(held_[i].frame);
  for (const Delayed& delayed : delayed_) rte_pktmbuf_free(delayed.frame);
  rte_ring_free(rx_);
}

// Places in the peer's queue that frames of this end may still need; one that is allocated may get
// a duplicate.
uint32_t WirePort::promised() const {
  return 2 * outstanding_ + held_count_ + static_cast<uint32_t>(delayed_.size());
}

// The destination of a frame is not known before commit(), so both queues must have room.
bool WirePort::has_room() const {
  const uint32_t there = promised() + peer_->outstanding_ + 2;
  const uint32_t here = peer_->promised() + outstanding_ + 1;
  return rte_ring_free_count(peer_->rx_) >= there && rte_ring_free_count(rx_) >= here;
}

bool WirePort::allocate(uint32_t bytes, TxFrame& frame) {
  VERBENA_ASSERT(bytes <= kMaxFrameBytes);
  rte_mbuf* mbuf = has_room() ? rte_pktmbuf_alloc(pool_) : nullptr;
  if (mbuf == nullptr) {
    ++counters_.tx_full;
    return false;
  }
  ++outstanding_;
  frame.data = rte_pktmbuf_mtod(mbuf, uint8_t*);
  frame.handle = mbuf;
  return true;
}

void WirePort::commit(const TxFrame& frame, uint32_t bytes) {
  auto* mbuf = static_cast<rte_mbuf*>(frame.handle);
  mbuf->data_len = static_cast<uint16_t>(bytes);
  mbuf->pkt_len = bytes;
  mbuf->hash.usr = frame.sender;  // a copy has it too
  --outstanding_;
  ++counters_.tx_frames;
  const bool to_self = bytes >= mac_.bytes.size() &&
                       std::memcmp(frame.data, mac_.bytes.data(), mac_.bytes.size()) == 0;
  if (!to_self && faults_.active()) [[unlikely]] {
    return send_through_faults(mbuf, frame.note);
  }
  tap(mbuf, frame.note, {});
  enqueue(to_self ? rx_ : peer_->rx_, mbuf);
}

// Returns the tag, which the frame has now.
uint64_t WirePort::tap(rte_mbuf* frame, const TxNote& note, const FaultVerdict& fate) {
  if (capture_ == nullptr) [[likely]] {
    return 0;
  }
  const std::span<const uint8_t> bytes(rte_pktmbuf_mtod(frame, const uint8_t*), frame->pkt_len);
  return tag_of(frame) = capture_->tap(index_, clock_.now(), bytes, note, fate);
}

void WirePort::received(std::span<rte_mbuf* const> frames, std::span<const RxVerdict> verdicts) {
  if (capture_ == nullptr) return;
  for (size_t i = 0; i < frames.size(); ++i) {
    capture_->received(index_, tag_of(frames[i]), verdicts[i]);
  }
}

void WirePort::release(const TxFrame& frame) {
  --outstanding_;
  rte_pktmbuf_free(static_cast<rte_mbuf*>(frame.handle));
}

void WirePort::enqueue(rte_ring* ring, rte_mbuf* frame) {
  const int result = rte_ring_sp_enqueue(ring, frame);
  VERBENA_ASSERT(result == 0);  // allocate() has made sure of the room
}

void WirePort::send_through_faults(rte_mbuf* frame, const TxNote& note) {
  auto* const bytes = rte_pktmbuf_mtod(frame, uint8_t*);
  last_sent_ = clock_.now();
  deliver_due(last_sent_);
  FaultVerdict verdict =
      faults_.next(index_, {bytes, frame->pkt_len}, last_sent_, held_count_ < kMaxHeld);
  rte_mbuf* const copy =
      verdict.duplicate ? rte_pktmbuf_copy(frame, pool_, 0, UINT32_MAX) : nullptr;
  verdict.duplicate = copy != nullptr;
  const uint64_t tag = tap(frame, note, verdict);
  if (verdict.drop) {
    ++counters_.faults_dropped;
    rte_pktmbuf_free(frame);
    return count_overtaking(0);
  }
  const Timestamp due = last_sent_ + verdict.delay_ns;
  counters_.faults_delayed += verdict.delay_ns != 0 ? 1 : 0;
  if (verdict.duplicate) {
    ++counters_.faults_duplicated;
    tag_of(copy) = tag;
    forward(copy, due);
  }
  if (verdict.corrupt_bit) {
    ++counters_.faults_corrupted;
    bytes[*verdict.corrupt_bit / 8] ^= static_cast<uint8_t>(1 << *verdict.corrupt_bit % 8);
  }
  if (verdict.overtaken_by != 0) {
    ++counters_.faults_reordered;
    held_[held_count_++] = {frame, verdict.overtaken_by, due};
    return;
  }
  forward(frame, due);
  count_overtaking(due);
}

// One more frame, which arrives at `due`, has passed those put aside: none arrives before it.
void WirePort::count_overtaking(Timestamp due) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < held_count_; ++i) {
    held_[i].due = std::max(held_[i].due, due);
    if (--held_[i].frames_to_go == 0) {
      forward(held_[i].frame, held_[i].due);
    } else {
      held_[kept++] = held_[i];
    }
  }
  held_count_ = kept;
}

void WirePort::forward(rte_mbuf* frame, Timestamp due) {
  if (due <= last_sent_) return enqueue(peer_->rx_, frame);
  delayed_.push_back({due, delayed_ever_++, frame});
  std::push_heap(delayed_.begin(), delayed_.end(), std::greater<>());
}

void WirePort::deliver_due(Timestamp now) {
  while (!delayed_.empty() && delayed_.front().due <= now) {
    std::pop_heap(delayed_.begin(), delayed_.end(), std::greater<>());
    enqueue(peer_->rx_, delayed_.back().frame);
    delayed_.pop_back();
  }
}

uint32_t WirePort::rx_burst(std::span<rte_mbuf*> frames) {
  return rte_ring_sc_dequeue_burst(rx_, reinterpret_cast<void**>(frames.data()),
                                   static_cast<uint32_t>(frames.size()), nullptr);
}

void WirePort::flush(Timestamp now) {
  if (held_count_ != 0 && now >= last_sent_ + kMaxHoldNs) {
    for (uint32_t i = 0; i < held_count_; ++i) forward(held_[i].frame, held_[i].due);
    held_count_ = 0;
  }
  deliver_due(now);
}

bool WirePort::busy() const {
  return !rte_ring_empty(rx_);
}

Timestamp WirePort::next_flush() const {
  const Timestamp held = held_count_ != 0 ? last_sent_ + kMaxHoldNs : kNever;
  return delayed_.empty() ? held : std::min(held, delayed_.front().due);
}

Wire::Wire(const std::array<MacAddr, 2>& macs, std::span<const FaultRule> faults,
           const Clock& clock) {
  pool_ = rte_pktmbuf_pool_create("verbena_frames", kPoolFrames, kPoolCache, sizeof(uint64_t),
                                  RTE_PKTMBUF_HEADROOM + kMaxFrameBytes, SOCKET_ID_ANY);
  if (pool_ == nullptr) {
    throw std::runtime_error(std::string("no memory for packet buffers: ") +
                             rte_strerror(rte_errno));
  }
  for (uint32_t i = 0; i < 2; ++i) {
    ends_[i].reset(new WirePort(i, macs[i], pool_, faults_, clock));
  }
  ends_[0]->peer_ = ends_[1].get();
  ends_[1]->peer_ = ends_[0].get();
  for (const FaultRule& rule : faults) {
    const bool fits = faults_.set(rule);
    VERBENA_ASSERT(fits);
  }
}

Wire::~Wire() {
  ends_ = {};
  rte_mempool_free(pool_);
}

bool Wire::set_fault(const FaultRule& rule) {
  for (auto& end : ends_) end->flush(kNever);
  return faults_.set(rule);
}

uint32_t Wire::clear_faults(const FaultSelector& selector) {
  for (auto& end : ends_) end->flush(kNever);
  return faults_.clear(selector);
}

}  // namespace verbena
