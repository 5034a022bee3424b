#include "dpdk/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "dpdk/pcapng.h"
#include "stack/tx_sink.h"

namespace verbena {
namespace {

constexpr uint32_t kSectionBlock = 0x0A0D0D0A;
constexpr auto kWriterNap = std::chrono::milliseconds(1);
// How long a frame waits for its receipt, beyond the delay that the wire's faults give it.
constexpr auto kLongestWait = std::chrono::milliseconds(100);
constexpr size_t kOutBytes = 1 << 18;
constexpr int kTagBits = 48;

constexpr uint8_t kFrame = 1;
constexpr uint8_t kReceipt = 2;

void add(std::atomic<uint64_t>& counter) {  // one writing thread
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Tags of one capture are no tags of another.
uint64_t unused_tags() {
  static std::atomic<uint64_t> captures{0};
  return (captures.fetch_add(1, std::memory_order_relaxed) + 1) << kTagBits;
}

template <typename Record>
Record read_record(const ByteRing& ring, uint64_t position) {
  Record record;
  ring.copy(position, {reinterpret_cast<uint8_t*>(&record), sizeof record});
  return record;
}

}  // namespace

Capture::Capture(std::string path, UniqueFd file, std::span<const std::string> interfaces,
                 uint64_t wall_offset_ns, uint64_t ring_bytes)
    : path_(std::move(path)),
      interfaces_(interfaces.begin(), interfaces.end()),
      file_(std::move(file)),
      wall_offset_ns_(wall_offset_ns),
      ring_(ring_bytes),
      first_tag_(unused_tags()),
      last_tag_(first_tag_) {
  out_.reserve(kOutBytes + kMaxFrameBytes + 4096);
  pcapng::append_section(out_, "Verbena software RNIC", "verbenad " VERBENA_VERSION);
  for (const auto& name : interfaces_) pcapng::append_interface(out_, name, kMaxFrameBytes);
  writer_ = std::thread([this] {
    try {
      write_loop();
    } catch (const std::bad_alloc&) {
      error_.store(ENOMEM, std::memory_order_relaxed);
    }
  });
}

Capture::~Capture() {
  finish();
}

void Capture::put(uint8_t kind, const void* record, size_t bytes, std::span<const uint8_t> frame) {
  ring_.put({&kind, 1});
  ring_.put({static_cast<const uint8_t*>(record), bytes});
  ring_.put(frame);
  ring_.commit();
}

uint64_t Capture::tap(uint32_t interface, uint64_t now_ns, std::span<const uint8_t> frame,
                      const TxNote& note, const FaultVerdict& fate) {
  if (!ring_.fits(1 + sizeof(FrameRecord) + frame.size())) {
    add(dropped_);
    return 0;
  }
  const FrameRecord record{.tag = ++last_tag_,
                           .timestamp_ns = now_ns + wall_offset_ns_,
                           .interface = interface,
                           .frame_bytes = static_cast<uint32_t>(frame.size()),
                           .note = note,
                           .fate = fate};
  put(kFrame, &record, sizeof record, frame);
  add(written_);
  return record.tag;
}

void Capture::received(uint32_t interface, uint64_t tag, const RxVerdict& verdict) {
  if (tag <= first_tag_ || tag > last_tag_) return;
  if (!ring_.fits(1 + sizeof(ReceiptRecord))) return;
  const ReceiptRecord record{.tag = tag, .interface = interface, .verdict = verdict};
  put(kReceipt, &record, sizeof record);
}

Capture::Totals Capture::finish() {
  if (writer_.joinable()) {
    stop_.store(true, std::memory_order_release);
    writer_.join();
    if (file_ && close(file_.release()) != 0 && error_ == 0) error_ = errno;
  }
  return totals();
}

Capture::Totals Capture::totals() const {
  return {written_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed),
          error_.load(std::memory_order_relaxed)};
}

void Capture::write_loop() {
  for (;;) {
    // Read before the ring is: what came before the stop is written.
    const bool stop = stop_.load(std::memory_order_acquire);
    const bool more = read_records();
    encode_frames(stop && !more);
    flush();
    if (more) continue;
    if (stop) return;
    std::this_thread::sleep_for(kWriterNap);
  }
}

bool Capture::read_records() {
  const uint64_t end = ring_.readable_end();
  if (read_ == end) return false;
  const Clock::time_point now = Clock::now();
  while (read_ != end) {
    const auto kind = read_record<uint8_t>(ring_, read_++);
    if (kind == kReceipt) {
      note_receipt(read_record<ReceiptRecord>(ring_, read_));
      read_ += sizeof(ReceiptRecord);
      continue;
    }
    Waiting waiting;
    waiting.story.frame = read_record<FrameRecord>(ring_, read_);
    waiting.position = read_ + sizeof(FrameRecord);
    waiting.due = now + kLongestWait + std::chrono::nanoseconds(waiting.story.frame.fate.delay_ns);
    read_ = waiting.position + waiting.story.frame.frame_bytes;
    waiting_.push_back(waiting);
  }
  return true;
}

void Capture::note_receipt(const ReceiptRecord& receipt) {
  if (waiting_.empty() || receipt.tag < waiting_.front().story.frame.tag) return;  // written
  FrameStory& story = waiting_[receipt.tag - waiting_.front().story.frame.tag].story;
  if (story.received < story.receipts.size()) story.receipts[story.received++] = receipt;
}

// Those at the front whose story is complete, and `all` or those that cannot wait any longer.
void Capture::encode_frames(bool all) {
  const Clock::time_point now = Clock::now();
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    const bool crowded = read_ - first.position > ring_.size() / 2;
    if (!all && !first.story.complete() && !crowded && now < first.due) break;
    encode(first);
    waiting_.pop_front();
    if (out_.size() >= kOutBytes) flush();
  }
  ring_.consume(waiting_.empty() ? read_ : waiting_.front().position);
}

void Capture::encode(const Waiting& waiting) {
  const FrameRecord& frame = waiting.story.frame;
  const auto bytes =
      pcapng::append_packet(out_, frame.interface, frame.timestamp_ns, frame.frame_bytes,
                            capture_comment(waiting.story, interfaces_));
  ring_.copy(waiting.position, bytes);
}

void Capture::flush() {
  std::span<const uint8_t> left = out_;
  while (!left.empty() && error_.load(std::memory_order_relaxed) == 0) {
    const ssize_t put = write(file_.value(), left.data(), left.size());
    if (put > 0) {
      left = left.subspan(static_cast<size_t>(put));
    } else if (put == 0 || errno != EINTR) {
      error_.store(put == 0 ? EIO : errno, std::memory_order_relaxed);
    }
  }
  out_.clear();
}

UniqueFd open_capture_file(const std::string& path, std::string& wrong) {
  if (path.empty() || path[0] != '/') {
    wrong = fmt::format("'{}' is not an absolute path: write capture start /DIR/FILE", path);
    return {};
  }
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
  if (fd) return fd;
  if (errno == EEXIST) fd.reset(open(path.c_str(), kFlags));
  if (!fd) {
    wrong = errno == ELOOP ? fmt::format("{} is a symbolic link: name the file itself", path)
                           : fmt::format("cannot create {}: {}", path, std::strerror(errno));
    return {};
  }
  struct stat status {};
  uint32_t magic = kSectionBlock;
  const bool ours =
      fstat(fd.value(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      status.st_nlink == 1 &&
      (status.st_size == 0 ||
       (pread(fd.value(), &magic, sizeof magic, 0) == sizeof magic && magic == kSectionBlock));
  if (!ours || ftruncate(fd.value(), 0) != 0) {
    wrong = fmt::format("{} exists and is not a capture of yours: choose another name", path);
    return {};
  }
  return fd;
}

}  // namespace verbena
