// TxSink: where a device puts the frames it sends. Implemented by a port of the daemon, by the
// simulator and by tests. Called by the device's thread only, inside Device::poll().
#pragma once

#include <cstdint>

#include "stack/trace.h"
#include "stack/types.h"

namespace verbena {

struct TxFrame {
  uint8_t* data = nullptr;  // room for the size that was asked for
  void* handle = nullptr;   // the sink's own
  TxNote note;              // why it is sent; at commit()
  Qpn sender = 0;           // the queue pair that sends it; at commit()
};

class TxSink {
 public:
  virtual ~TxSink() = default;

  // A buffer for a frame of `bytes` (at most kMaxFrameBytes). False: no room now; the device asks
  // again at a later poll and nothing is lost.
  virtual bool allocate(uint32_t bytes, TxFrame& frame) = 0;
  // Takes the frame over and sends its first `bytes` bytes. Frames leave in the order of commit().
  virtual void commit(const TxFrame& frame, uint32_t bytes) = 0;
  // Gives an allocated frame back unsent.
  virtual void release(const TxFrame& frame) = 0;

 protected:
  TxSink() = default;
  TxSink(const TxSink&) = default;
  TxSink& operator=(const TxSink&) = default;
};

// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8 + BTH 12 + extended headers 28 + payload 4096 + ICRC 4,
// rounded up.
inline constexpr uint32_t kMaxFrameBytes = 4224;

}  // namespace verbena
