// Wire: two devices joined back to back in memory, with a fault model for each direction.
//
// A frame whose destination MAC is its sender's own turns round inside the port (as a NIC's
// loopback does) and meets no faults; every other frame goes to the other end. Frames are delivered
// in order but for the fault model. Both ends belong to one polling thread.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/clock.h"
#include "dpdk/fault_model.h"
#include "dpdk/port.h"
#include "stack/types.h"

namespace verbena {

class WirePort final : public Port {
 public:
  ~WirePort() override;

  bool allocate(uint32_t bytes, TxFrame& frame) override;
  void commit(const TxFrame& frame, uint32_t bytes) override;
  void release(const TxFrame& frame) override;

  uint32_t rx_burst(std::span<rte_mbuf*> frames) override;
  void flush(Timestamp now) override;
  bool busy() const override;
  int wake_fd() const override { return -1; }
  const PortCounters& counters() const override { return counters_; }
  void capture_to(Capture* capture) override { capture_ = capture; }

  uint32_t queued() const { return rte_ring_count(rx_); }

 private:
  friend class Wire;

  // Frames that the fault model has put aside to be overtaken.
  struct Held {
    rte_mbuf* frame = nullptr;
    uint32_t frames_to_go = 0;
  };
  static constexpr uint32_t kMaxHeld = 8;

  WirePort(uint32_t index, MacAddr mac, rte_mempool* pool, const FaultSettings& faults,
           const Clock& clock);

  void send_through_faults(rte_mbuf* frame);
  void count_overtaking();
  static void enqueue(rte_ring* ring, rte_mbuf* frame);

  const uint32_t index_;
  const MacAddr mac_;
  rte_mempool* const pool_;
  rte_ring* rx_ = nullptr;    // frames for this end; owned
  rte_ring* peer_ = nullptr;  // the other end's rx_
  FaultModel faults_;
  std::array<Held, kMaxHeld> held_{};
  uint32_t held_count_ = 0;
  uint32_t outstanding_ = 0;  // allocated, neither committed nor released
  Timestamp held_since_ = 0;  // when the last of them was put aside
  PortCounters counters_;
  Capture* capture_ = nullptr;
  Clock clock_;
};

class Wire {
 public:
  static constexpr uint32_t kQueueFrames = 1024;  // per end

  // EAL must be up. Throws std::runtime_error when its memory does not suffice.
  Wire(const std::array<MacAddr, 2>& macs, const FaultSettings& faults, const Clock& clock);
  ~Wire();

  WirePort& end(uint32_t index) { return *ends_[index]; }

 private:
  rte_mempool* pool_ = nullptr;
  std::array<std::unique_ptr<WirePort>, 2> ends_;
};

}  // namespace verbena
