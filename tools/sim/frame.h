// Frames on their way through the simulated network, in buffers that are used again.
//
// A buffer ends, for the address sanitizer, where its frame ends. Handles must not outlive their
// pool. Not for several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace verbena::sim {

struct Frame {
  static constexpr uint32_t kMaxFlips = 8;

  std::span<uint8_t> view() { return {data.get(), bytes}; }
  std::span<const uint8_t> view() const { return {data.get(), bytes}; }

  uint32_t bytes = 0;
  // What the network did to it: for those who check, never for devices.
  bool truncated = false;
  uint32_t flips = 0;  // bits turned; their positions are in `flipped`, counted from the first byte
  std::array<uint32_t, kMaxFlips> flipped{};

  std::unique_ptr<uint8_t[]> data;
  uint32_t capacity = 0;
};

class FramePool;

struct FrameReturn {
  FramePool* pool = nullptr;
  void operator()(Frame* frame) const;
};
using FramePtr = std::unique_ptr<Frame, FrameReturn>;

class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // A frame of that size; its bytes are not set.
  FramePtr take(uint32_t bytes);
  FramePtr copy(const Frame& frame);
  // Frames taken and not returned.
  size_t outstanding() const { return outstanding_; }

 private:
  friend FrameReturn;
  void put_back(Frame* frame);

  std::vector<Frame*> free_;
  size_t outstanding_ = 0;
};

}  // namespace verbena::sim
