// Live capture to a pcapng file: every frame as its sender put it on the wire, before faults.
//
// The polling thread copies frames into a bounded ring and never waits: when the ring is full the
// frame is counted as dropped. A thread of its own writes the file, and exists only while
// capturing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dpdk/byte_ring.h"
#include "dpdk/unique_fd.h"

namespace verbena {

class Capture {
 public:
  struct Totals {
    uint64_t written = 0;  // frames taken into the file
    uint64_t dropped = 0;  // frames that found the ring full
    int error = 0;         // errno of the first failed write to the file
  };

  static constexpr uint64_t kRingBytes = uint64_t{1} << 26;

  // Writes the file's head and starts the writer. `wall_offset_ns` is added to timestamps;
  // `ring_bytes` is a power of two.
  Capture(std::string path, UniqueFd file, std::span<const std::string> interfaces,
          uint64_t wall_offset_ns, uint64_t ring_bytes = kRingBytes);
  // No tap() may come any more.
  ~Capture();

  // Polling thread: one frame of an interface.
  void tap(uint32_t interface, uint64_t now_ns, std::span<const uint8_t> frame);

  // After the last tap(): writes what is left and closes the file. Counts all, once it has
  // returned.
  Totals finish();

  Totals totals() const;  // any thread
  const std::string& path() const { return path_; }

 private:
  void write_loop();
  bool write_available();  // false: nothing was there

  const std::string path_;
  UniqueFd file_;
  const uint64_t wall_offset_ns_;
  ByteRing ring_;
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> stop_{false};
  std::thread writer_;
};

// Creates the file, or empties it when it is an earlier capture of ours: a regular file of this
// user with one name, that is empty or a pcapng file; nothing else is overwritten, and a symbolic
// link is not followed. On failure `wrong` says why.
UniqueFd open_capture_file(const std::string& path, std::string& wrong);

}  // namespace verbena
