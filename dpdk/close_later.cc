#include "dpdk/close_later.h"

#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace verbena {
namespace {

class Closer {
 public:
  Closer() {
    std::thread([this] { run(); }).detach();
  }

  void put(int fd) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(fd);
    }
    ready_.notify_one();
  }

 private:
  [[noreturn]] void run() {
    std::vector<int> closing;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [this] { return !waiting_.empty(); });
        closing.swap(waiting_);
      }
      for (const int fd : closing) close_one(fd);
      closing.clear();
    }
  }

  static void close_one(int fd) {
    const linger none{0, 0};  // else close() waits until the peer has taken what was sent to it
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<int> waiting_;
};

}  // namespace

void close_later(int fd) noexcept {
  try {
    static auto* const closer = new Closer;  // never destroyed: its thread may be in a close()
    closer->put(fd);
  } catch (const std::exception&) {  // no thread, no memory
    close(fd);
  }
}

}  // namespace verbena
