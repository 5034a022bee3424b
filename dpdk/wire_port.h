// Wire: two devices joined back to back in memory, with a fault model between them.
//
// A frame whose destination MAC is its sender's own turns round inside the port (as a NIC's
// loopback does) and meets no faults; every other frame goes to the other end. Frames are delivered
// in order but for the fault model. Both ends belong to one polling thread.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <memory>
#include <span>
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
  Qpn sender_of(const rte_mbuf& frame) const override { return frame.hash.usr; }
  void flush(Timestamp now) override;
  bool busy() const override;
  Timestamp next_flush() const override;
  bool has_room() const override;
  int wake_fd() const override { return -1; }
  const PortCounters& counters() const override { return counters_; }
  void received(std::span<rte_mbuf* const> frames, std::span<const RxVerdict> verdicts) override;

  uint32_t queued() const { return rte_ring_count(rx_); }

 private:
  friend class Wire;

  // A frame on its way that others pass, until so many have done so.
  struct Held {
    rte_mbuf* frame = nullptr;
    uint32_t frames_to_go = 0;
    Timestamp due = 0;
  };
  // A frame that arrives at a time of its own. Those of the same time keep their order.
  struct Delayed {
    Timestamp due = 0;
    uint64_t order = 0;
    rte_mbuf* frame = nullptr;

    bool operator>(const Delayed& other) const {
      return due != other.due ? due > other.due : order > other.order;
    }
  };
  static constexpr uint32_t kMaxHeld = FaultRule::kMaxReorderBy;

  WirePort(uint32_t index, MacAddr mac, rte_mempool* pool, FaultModel& faults, const Clock& clock);

  uint32_t promised() const;
  uint64_t tap(rte_mbuf* frame, const TxNote& note, const FaultVerdict& fate);
  void send_through_faults(rte_mbuf* frame, const TxNote& note);
  void count_overtaking(Timestamp due);
  void forward(rte_mbuf* frame, Timestamp due);
  void deliver_due(Timestamp now);
  static void enqueue(rte_ring* ring, rte_mbuf* frame);

  const uint32_t index_;
  const MacAddr mac_;
  rte_mempool* const pool_;
  rte_ring* rx_ = nullptr;    // frames for this end; owned
  WirePort* peer_ = nullptr;  // the other end
  FaultModel& faults_;
  std::array<Held, kMaxHeld> held_{};
  uint32_t held_count_ = 0;
  std::vector<Delayed> delayed_;  // a heap, the earliest in front; never grows beyond its capacity
  uint64_t delayed_ever_ = 0;
  uint32_t outstanding_ = 0;  // allocated, neither committed nor released
  Timestamp last_sent_ = 0;   // through faults
  PortCounters counters_;
  Clock clock_;
};

class Wire {
 public:
  static constexpr uint32_t kQueueFrames = 1024;  // per end

  // EAL must be up. At most kMaxFaultRules rules. Throws std::runtime_error when EAL's memory does
  // not suffice.
  Wire(const std::array<MacAddr, 2>& macs, std::span<const FaultRule> faults, const Clock& clock);
  ~Wire();

  WirePort& end(uint32_t index) { return *ends_[index]; }

  // ---- Polling thread ----

  const FaultModel& faults() const { return faults_; }
  // See FaultModel. A change lets go of the frames that were put aside or delayed, so that none of
  // them is passed by those that come after the change.
  bool set_fault(const FaultRule& rule);
  uint32_t clear_faults(const FaultSelector& selector);

 private:
  FaultModel faults_;
  rte_mempool* pool_ = nullptr;
  std::array<std::unique_ptr<WirePort>, 2> ends_;
};

}  // namespace verbena
