#include "tools/sim/frame.h"

#include <algorithm>
#include <cstring>

#include "stack/tx_sink.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define VERBENA_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define VERBENA_ASAN
#endif
#ifdef VERBENA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace verbena::sim {
namespace {

// What lies behind the frame in its buffer may not be touched.
void fence([[maybe_unused]] const Frame& frame) {
#ifdef VERBENA_ASAN
  __asan_unpoison_memory_region(frame.data.get(), frame.capacity);
  __asan_poison_memory_region(frame.data.get() + frame.bytes, frame.capacity - frame.bytes);
#endif
}

void unfence([[maybe_unused]] const Frame& frame) {
#ifdef VERBENA_ASAN
  __asan_unpoison_memory_region(frame.data.get(), frame.capacity);
#endif
}

}  // namespace

void FrameReturn::operator()(Frame* frame) const {
  pool->put_back(frame);
}

FramePool::~FramePool() {
  for (Frame* frame : free_) {
    unfence(*frame);
    delete frame;
  }
}

FramePtr FramePool::take(uint32_t bytes) {
  Frame* frame;
  if (free_.empty()) {
    frame = new Frame;
  } else {
    frame = free_.back();
    free_.pop_back();
  }
  if (frame->capacity < bytes) {
    unfence(*frame);
    frame->capacity = std::max(bytes, kMaxFrameBytes);
    frame->data = std::make_unique_for_overwrite<uint8_t[]>(frame->capacity);
  }
  frame->bytes = bytes;
  frame->truncated = false;
  frame->flips = 0;
  fence(*frame);
  ++outstanding_;
  return {frame, FrameReturn{this}};
}

FramePtr FramePool::copy(const Frame& frame) {
  FramePtr twin = take(frame.bytes);
  std::memcpy(twin->data.get(), frame.data.get(), frame.bytes);
  twin->truncated = frame.truncated;
  twin->flips = frame.flips;
  twin->flipped = frame.flipped;
  return twin;
}

void FramePool::put_back(Frame* frame) {
  --outstanding_;
  free_.push_back(frame);
}

}  // namespace verbena::sim
