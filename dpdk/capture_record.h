// What the polling thread tells the writer of a capture: the frames, and what became of them.
//
// A frame has a tag, which its buffer carries to the receiver; the receipt names it. Tags count up
// within a capture and are not used by another.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "dpdk/fault_model.h"
#include "stack/trace.h"

namespace verbena {

// Followed by the frame.
struct FrameRecord {
  uint64_t tag = 0;
  uint64_t timestamp_ns = 0;
  uint32_t interface = 0;  // of the sender
  uint32_t frame_bytes = 0;
  TxNote note;
  FaultVerdict fate;  // on the wire
};

struct ReceiptRecord {
  uint64_t tag = 0;
  uint32_t interface = 0;  // of the receiver
  RxVerdict verdict;
};

// A frame and what is known about it.
struct FrameStory {
  FrameRecord frame;
  std::array<ReceiptRecord, 2> receipts;
  uint32_t received = 0;

  uint32_t expected() const { return frame.fate.drop ? 0 : frame.fate.duplicate ? 2 : 1; }
  bool complete() const { return received >= expected(); }
};

// "request; wire: delivered twice; verbena1: expected PSN: executed; verbena1: duplicate: ..."
std::string capture_comment(const FrameStory& story, std::span<const std::string> interfaces);

}  // namespace verbena
