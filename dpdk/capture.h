// Live capture to a pcapng file: every frame as its sender put it on the wire, before faults, with
// a comment that says why it was sent, what the wire did to it and what the receiver did with it.
//
// The polling thread copies frames and receipts into a bounded ring and never waits: when the ring
// is full the frame is counted as dropped. A thread of its own writes the file, and exists only
// while capturing. It writes the frames in the order in which they were sent, each when it was
// received, or when that does not happen in time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dpdk/byte_ring.h"
#include "dpdk/capture_record.h"
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
  // Neither tap() nor received() may come any more.
  ~Capture();

  // ---- Polling thread ----

  // A frame that an interface sends, why, and what the wire makes of it. Returns its tag, 0 when
  // the ring was full.
  uint64_t tap(uint32_t interface, uint64_t now_ns, std::span<const uint8_t> frame,
               const TxNote& note, const FaultVerdict& fate);
  // A frame with this tag has come to an interface. Tags of other captures have no effect.
  void received(uint32_t interface, uint64_t tag, const RxVerdict& verdict);

  // ---- Any thread ----

  // After the last tap(): writes what is left and closes the file. Counts all, once it has
  // returned.
  Totals finish();

  Totals totals() const;
  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;

  // A frame in the ring that is not written yet.
  struct Waiting {
    FrameStory story;
    uint64_t position = 0;  // of the frame's bytes in the ring
    Clock::time_point due;  // written then at the latest
  };

  void put(uint8_t kind, const void* record, size_t bytes, std::span<const uint8_t> frame = {});

  // ---- Writer thread ----
  void write_loop();
  bool read_records();  // false: nothing was there
  void note_receipt(const ReceiptRecord& receipt);
  void encode_frames(bool all);
  void encode(const Waiting& waiting);
  void flush();

  const std::string path_;
  const std::vector<std::string> interfaces_;
  UniqueFd file_;
  const uint64_t wall_offset_ns_;
  ByteRing ring_;
  const uint64_t first_tag_;  // one below it
  uint64_t last_tag_;         // polling thread
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> stop_{false};

  // The writer's.
  uint64_t read_ = 0;  // position of the next record in the ring
  std::deque<Waiting> waiting_;
  std::vector<uint8_t> out_;

  std::thread writer_;
};

// Creates the file, or empties it when it is an earlier capture of ours: a regular file of this
// user with one name, that is empty or a pcapng file; nothing else is overwritten, and a symbolic
// link is not followed. On failure `wrong` says why.
UniqueFd open_capture_file(const std::string& path, std::string& wrong);

}  // namespace verbena
