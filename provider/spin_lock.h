// The lock of one queue: uncontended in nearly every program, held for less than a microsecond.
//
// After some spinning it yields, because on a machine of few cores the holder may be waiting for
// this very core. Not recursive, not fair; never held across a fork by the data path.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace verbena::provider {

class SpinLock {
 public:
  void lock() {
    for (uint32_t tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries > kSpins) {
          sched_yield();
        } else {
          pause();
        }
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr uint32_t kSpins = 64;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<bool> held_{false};
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace verbena::provider
