// ByteRing: a bounded stream of bytes from one writing thread to one reading thread, without locks.
//
// A write is all or nothing and becomes readable at commit(). The reader may look ahead before it
// gives room back. Positions are free-running 64-bit counts; each side owns one of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace verbena {

class ByteRing {
 public:
  // `bytes` is a power of two.
  explicit ByteRing(uint64_t bytes) : mask_(bytes - 1), data_(new uint8_t[bytes]) {}

  // ---- Writer ----

  bool fits(uint64_t bytes) {
    if (mask_ + 1 - (write_ - seen_tail_) >= bytes) return true;
    seen_tail_ = tail_.load(std::memory_order_acquire);
    return mask_ + 1 - (write_ - seen_tail_) >= bytes;
  }
  // Only after fits() for all that is put before the next commit().
  void put(std::span<const uint8_t> bytes) {
    if (bytes.empty()) return;  // memcpy takes no null, not even for nothing
    const uint64_t at = write_ & mask_;
    const uint64_t first = std::min<uint64_t>(bytes.size(), mask_ + 1 - at);
    std::memcpy(data_.get() + at, bytes.data(), first);
    std::memcpy(data_.get(), bytes.data() + first, bytes.size() - first);
    write_ += bytes.size();
  }
  void commit() { head_.store(write_, std::memory_order_release); }

  // ---- Reader ----

  // Everything before this position, from that of the last consume() on, may be copied out.
  uint64_t readable_end() const { return head_.load(std::memory_order_acquire); }
  void copy(uint64_t position, std::span<uint8_t> out) const {
    if (out.empty()) return;
    const uint64_t at = position & mask_;
    const uint64_t first = std::min<uint64_t>(out.size(), mask_ + 1 - at);
    std::memcpy(out.data(), data_.get() + at, first);
    std::memcpy(out.data() + first, data_.get(), out.size() - first);
  }
  // Gives the room before `position` back to the writer.
  void consume(uint64_t position) { tail_.store(position, std::memory_order_release); }
  uint64_t size() const { return mask_ + 1; }

 private:
  const uint64_t mask_;
  const std::unique_ptr<uint8_t[]> data_;
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t write_ = 0;
  uint64_t seen_tail_ = 0;
  alignas(64) std::atomic<uint64_t> tail_{0};
};

}  // namespace verbena
