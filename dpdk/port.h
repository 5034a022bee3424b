// Port: where the polling thread receives the frames of one device and sends those it makes.
//
// A port belongs to the polling thread. Received mbufs hold one contiguous frame each. Sending
// never loses a frame for want of room: allocate() says no instead, and the device keeps the work.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "dpdk/capture.h"
#include "stack/base/time.h"
#include "stack/tx_sink.h"
#include "stack/types.h"

namespace verbena {

struct PortCounters {
  uint64_t tx_frames = 0;
  uint64_t tx_full = 0;  // allocate() said no
  uint64_t faults_dropped = 0;
  uint64_t faults_duplicated = 0;
  uint64_t faults_reordered = 0;
  uint64_t faults_corrupted = 0;
  uint64_t faults_delayed = 0;

  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    visit("port_tx_frames", tx_frames);
    visit("port_tx_full", tx_full);
    visit("wire_dropped", faults_dropped);
    visit("wire_duplicated", faults_duplicated);
    visit("wire_reordered", faults_reordered);
    visit("wire_corrupted", faults_corrupted);
    visit("wire_delayed", faults_delayed);
  }
};

class Port : public TxSink {
 public:
  // Up to frames.size() received frames; the caller frees them.
  virtual uint32_t rx_burst(std::span<rte_mbuf*> frames) = 0;

  // Of a received frame: the queue pair that sent it (TxFrame::sender); 0 when that is not known.
  virtual Qpn sender_of(const rte_mbuf& frame) const = 0;

  // Called once a round after all sending: pushes out what the port still holds and is due.
  virtual void flush(Timestamp now) = 0;

  // True when a sleeping polling thread would miss a frame: one waits to be received.
  virtual bool busy() const = 0;

  // When flush() will have something to do, or kNever.
  virtual Timestamp next_flush() const = 0;

  // False: allocate() would say no until a frame is received or flushed.
  virtual bool has_room() const = 0;

  // Readable when frames arrive during sleep; -1 if only the polling thread itself can cause any.
  virtual int wake_fd() const = 0;

  virtual const PortCounters& counters() const = 0;

  // What became of the frames of an rx_burst(), in its order. Only wanted while captured().
  virtual void received(std::span<rte_mbuf* const> frames, std::span<const RxVerdict> verdicts) = 0;

  // Not owned; null ends the capture.
  void capture_to(Capture* capture) { capture_ = capture; }
  bool captured() const { return capture_ != nullptr; }

 protected:
  Capture* capture_ = nullptr;
};

}  // namespace verbena
