// FrameBatch: several frames of one queue pair being built together, so that their payloads are
// gathered by one call to the client's memory. Frames leave in the order they were opened, or all
// are given back.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "stack/mem/client_memory.h"
#include "stack/stats.h"
#include "stack/tx_sink.h"
#include "stack/wire/emit.h"

namespace verbena {

class FrameBatch {
 public:
  static constexpr uint32_t kMaxFrames = 32;

  FrameBatch() = default;
  FrameBatch(const FrameBatch&) = delete;
  FrameBatch& operator=(const FrameBatch&) = delete;

  uint32_t count() const { return count_; }
  bool full() const { return count_ == kMaxFrames; }

  // Writes the headers of one more frame. False: the sink has no room. Only when not full.
  bool open(TxSink& sink, const wire::PacketSpec& spec, const TxNote& note) {
    Frame& frame = frames_[count_];
    frame.bytes = wire::frame_bytes(spec);
    if (!sink.allocate(frame.bytes, frame.tx)) return false;
    frame.tx.note = note;
    frame.tx.sender = spec.source_qpn;
    frame.spec = spec;
    payloads_[count_] = {wire::emit_headers(spec, frame.tx.data), spec.payload_bytes};
    ++count_;
    return true;
  }

  // Where the payloads go, between open() and commit().
  std::span<const MutableBytes> payloads() const { return {payloads_.data(), count_}; }

  void commit(TxSink& sink, DeviceStats& stats) {
    for (uint32_t i = 0; i < count_; ++i) {
      wire::finish(frames_[i].spec, frames_[i].tx.data);
      sink.commit(frames_[i].tx, frames_[i].bytes);
      ++stats.sent_pkts;
      stats.sent_bytes += frames_[i].bytes;
    }
    count_ = 0;
  }

  void release(TxSink& sink) {
    for (uint32_t i = 0; i < count_; ++i) sink.release(frames_[i].tx);
    count_ = 0;
  }

 private:
  struct Frame {
    TxFrame tx;
    uint32_t bytes = 0;
    wire::PacketSpec spec;
  };

  uint32_t count_ = 0;
  std::array<Frame, kMaxFrames> frames_;
  std::array<MutableBytes, kMaxFrames> payloads_{};
};

}  // namespace verbena
