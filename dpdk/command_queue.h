// CommandQueue: the only way from the control thread to the polling thread.
//
// run(fn) posts fn, wakes the polling thread if it sleeps, and returns when fn has run there; what
// fn throws (there was no memory) is thrown here, and is nothing to the polling thread. That thread
// looks at pending() once a round (one relaxed load) and takes the lock only when something is
// there. Whatever fn refers to may live on the caller's stack.
//
// Sleep protocol of the polling thread: prepare_sleep(), which announces the sleep and then looks
// for commands once more; when it returns true wait on wake_fd(); end_sleep() afterwards always.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <type_traits>

#include "dpdk/unique_fd.h"
#include "stack/base/assert.h"

namespace verbena {

class CommandQueue {
 public:
  CommandQueue() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { VERBENA_ASSERT(wake_); }
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Any thread but the polling one. The polling thread must be running run_pending().
  template <typename Fn>
  void run(Fn&& fn) {
    using Plain = std::remove_reference_t<Fn>;
    Node node;
    node.call = [](void* context) { (*static_cast<Plain*>(context))(); };
    node.context = const_cast<void*>(static_cast<const void*>(&fn));
    post_and_wait(node);
  }

  // ---- The polling thread only ----

  bool pending() const { return count_.load(std::memory_order_relaxed) != 0; }

  // Runs what is queued now, in order.
  void run_pending() {
    Node* node;
    {
      const std::lock_guard lock(mutex_);
      node = head_;
      head_ = tail_ = nullptr;
      count_.store(0, std::memory_order_relaxed);
    }
    while (node != nullptr) {
      Node* next = node->next;  // the node is gone once its poster wakes
      try {
        node->call(node->context);
      } catch (...) {
        node->thrown = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        node->done = true;
      }
      done_.notify_all();
      node = next;
    }
  }

  bool prepare_sleep() {
    asleep_.store(true, std::memory_order_seq_cst);
    return count_.load(std::memory_order_seq_cst) == 0;
  }
  void end_sleep() {
    asleep_.store(false, std::memory_order_relaxed);
    uint64_t ignored;
    [[maybe_unused]] const ssize_t got = ::read(wake_.value(), &ignored, sizeof ignored);
  }
  int wake_fd() const { return wake_.value(); }

 private:
  struct Node {
    void (*call)(void*) = nullptr;
    void* context = nullptr;
    Node* next = nullptr;
    std::exception_ptr thrown;
    bool done = false;
  };

  void post_and_wait(Node& node) {
    std::unique_lock lock(mutex_);
    if (tail_ != nullptr) {
      tail_->next = &node;
    } else {
      head_ = &node;
    }
    tail_ = &node;
    // seq_cst on both sides: either the sleeper sees the count or we see that it sleeps.
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst)) {
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t put = ::write(wake_.value(), &one, sizeof one);
    }
    done_.wait(lock, [&] { return node.done; });
    if (node.thrown) std::rethrow_exception(node.thrown);
  }

  UniqueFd wake_;
  std::atomic<uint32_t> count_{0};
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

}  // namespace verbena
