#include "dpdk/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "dpdk/pcapng.h"
#include "stack/tx_sink.h"

namespace verbena {
namespace {

constexpr uint32_t kSectionBlock = 0x0A0D0D0A;
constexpr auto kWriterNap = std::chrono::milliseconds(1);

void add(std::atomic<uint64_t>& counter) {  // one writing thread
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

Capture::Capture(std::string path, UniqueFd file, std::span<const std::string> interfaces,
                 uint64_t wall_offset_ns, uint64_t ring_bytes)
    : path_(std::move(path)),
      file_(std::move(file)),
      wall_offset_ns_(wall_offset_ns),
      ring_(ring_bytes) {
  std::vector<uint8_t> head;
  pcapng::append_section(head, "Verbena software RNIC", "verbenad " VERBENA_VERSION);
  for (const auto& name : interfaces) pcapng::append_interface(head, name, kMaxFrameBytes);
  ring_.put(head);
  ring_.commit();
  writer_ = std::thread([this] { write_loop(); });
}

Capture::~Capture() {
  finish();
}

void Capture::tap(uint32_t interface, uint64_t now_ns, std::span<const uint8_t> frame) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  const auto packet = pcapng::frame_packet(interface, now_ns + wall_offset_ns_, bytes);
  if (!ring_.fits(packet.head.size() + bytes + packet.tail_bytes)) {
    add(dropped_);
    return;
  }
  ring_.put(packet.head);
  ring_.put(frame);
  ring_.put({packet.tail.data(), packet.tail_bytes});
  ring_.commit();
  add(written_);
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
    if (write_available()) continue;
    if (stop) return;
    std::this_thread::sleep_for(kWriterNap);
  }
}

bool Capture::write_available() {
  const auto bytes = ring_.readable();
  if (bytes.empty()) return false;
  if (error_.load(std::memory_order_relaxed) != 0) {  // a full disk: go on emptying the ring
    ring_.consume(bytes.size());
    return true;
  }
  const ssize_t put = write(file_.value(), bytes.data(), bytes.size());
  if (put > 0) {
    ring_.consume(static_cast<uint64_t>(put));
  } else if (put == 0 || errno != EINTR) {
    error_.store(put == 0 ? EIO : errno, std::memory_order_relaxed);
  }
  return true;
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
