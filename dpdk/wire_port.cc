#include "dpdk/wire_port.h"

#include <rte_errno.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "stack/base/assert.h"

namespace verbena {
namespace {

// Room that a frame may need beyond its own: its duplicate, and all frames put aside.
constexpr uint32_t kReserve = 16;
// Two full queues and what is in the hands of the polling thread.
constexpr uint32_t kPoolFrames = 4095;
constexpr uint32_t kPoolCache = 256;
constexpr DurationNs kMaxHoldNs = 50'000;  // when no further frame comes to overtake

}  // namespace

WirePort::WirePort(uint32_t index, MacAddr mac, rte_mempool* pool, const FaultSettings& faults,
                   const Clock& clock)
    : index_(index), mac_(mac), pool_(pool), faults_(faults, index), clock_(clock) {
  const std::string name = "verbena_wire" + std::to_string(index);
  rx_ = rte_ring_create(name.c_str(), Wire::kQueueFrames, SOCKET_ID_ANY,
                        RING_F_SP_ENQ | RING_F_SC_DEQ);
  if (rx_ == nullptr) throw std::runtime_error("no memory for the wire's queues");
}

WirePort::~WirePort() {
  void* frame;
  while (rx_ != nullptr && rte_ring_dequeue(rx_, &frame) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
  }
  for (uint32_t i = 0; i < held_count_; ++i) rte_pktmbuf_free(held_[i].frame);
  rte_ring_free(rx_);
}

// The frame's destination is not known yet, so both queues must have room.
bool WirePort::allocate(uint32_t bytes, TxFrame& frame) {
  VERBENA_ASSERT(bytes <= kMaxFrameBytes);
  const uint32_t wanted = kReserve + 2 * outstanding_;
  const bool room = rte_ring_free_count(peer_) >= wanted && rte_ring_free_count(rx_) >= wanted;
  rte_mbuf* mbuf = room ? rte_pktmbuf_alloc(pool_) : nullptr;
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
  --outstanding_;
  ++counters_.tx_frames;
  if (capture_ != nullptr) [[unlikely]] {
    capture_->tap(index_, clock_.now(), {frame.data, bytes});
  }
  if (bytes >= mac_.bytes.size() &&
      std::memcmp(frame.data, mac_.bytes.data(), mac_.bytes.size()) == 0) {
    enqueue(rx_, mbuf);
  } else if (faults_.active()) [[unlikely]] {
    send_through_faults(mbuf);
  } else {
    enqueue(peer_, mbuf);
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

void WirePort::send_through_faults(rte_mbuf* frame) {
  const auto verdict = faults_.next(frame->pkt_len);
  if (verdict.drop) {
    ++counters_.faults_dropped;
    rte_pktmbuf_free(frame);
    count_overtaking();
    return;
  }
  if (verdict.duplicate) {
    if (rte_mbuf* copy = rte_pktmbuf_copy(frame, pool_, 0, UINT32_MAX); copy != nullptr) {
      ++counters_.faults_duplicated;
      enqueue(peer_, copy);
    }
  }
  if (verdict.corrupt_bit) {
    ++counters_.faults_corrupted;
    rte_pktmbuf_mtod(frame, uint8_t*)[*verdict.corrupt_bit / 8] ^=
        static_cast<uint8_t>(1 << *verdict.corrupt_bit % 8);
  }
  if (verdict.overtaken_by != 0 && held_count_ < kMaxHeld) {
    ++counters_.faults_reordered;
    held_[held_count_++] = {frame, verdict.overtaken_by};
    held_since_ = clock_.now();
    return;
  }
  enqueue(peer_, frame);
  count_overtaking();
}

// One more frame has passed those put aside.
void WirePort::count_overtaking() {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < held_count_; ++i) {
    if (--held_[i].frames_to_go == 0) {
      enqueue(peer_, held_[i].frame);
    } else {
      held_[kept++] = held_[i];
    }
  }
  held_count_ = kept;
}

uint32_t WirePort::rx_burst(std::span<rte_mbuf*> frames) {
  return rte_ring_sc_dequeue_burst(rx_, reinterpret_cast<void**>(frames.data()),
                                   static_cast<uint32_t>(frames.size()), nullptr);
}

void WirePort::flush(Timestamp now) {
  if (held_count_ == 0 || now < held_since_ + kMaxHoldNs) return;
  for (uint32_t i = 0; i < held_count_; ++i) enqueue(peer_, held_[i].frame);
  held_count_ = 0;
}

bool WirePort::busy() const {
  return held_count_ != 0 || !rte_ring_empty(rx_);
}

Wire::Wire(const std::array<MacAddr, 2>& macs, const FaultSettings& faults, const Clock& clock) {
  pool_ = rte_pktmbuf_pool_create("verbena_frames", kPoolFrames, kPoolCache, 0,
                                  RTE_PKTMBUF_HEADROOM + kMaxFrameBytes, SOCKET_ID_ANY);
  if (pool_ == nullptr) {
    throw std::runtime_error(std::string("no memory for packet buffers: ") +
                             rte_strerror(rte_errno));
  }
  for (uint32_t i = 0; i < 2; ++i) {
    ends_[i].reset(new WirePort(i, macs[i], pool_, faults, clock));
  }
  ends_[0]->peer_ = ends_[1]->rx_;
  ends_[1]->peer_ = ends_[0]->rx_;
}

Wire::~Wire() {
  ends_ = {};
  rte_mempool_free(pool_);
}

}  // namespace verbena
