#include "dpdk/proc_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace verbena {
namespace {

constexpr uint64_t kTailBytes = 8;

// The process numbers of `pid` in its own and the enclosing PID namespaces.
bool has_pid_alias(int pid, int alias) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    for (int number; numbers >> number;) {
      if (number == alias) return true;
    }
  }
  return false;
}

bool lists_as_proc(const std::string& mountinfo, const std::string& device) {
  std::ifstream mounts(mountinfo);
  // "36 35 0:21 / /proc rw,nosuid - proc proc rw" (proc(5))
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(' ' + device + ' ') != std::string::npos &&
        line.find(" - proc ") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Whether the file lies on a proc file system. Asks nothing of the file system itself: that of a
// FUSE server answers when its server likes. Each mount of proc may have a device number of its
// own.
bool is_on_proc(int fd, int pid) {
  struct statx file {};
  struct stat proc {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &file) != 0) return false;
  if (stat("/proc/self", &proc) != 0) return false;
  if (makedev(file.stx_dev_major, file.stx_dev_minor) == proc.st_dev) return true;
  if (pid == 0) {  // of a PID namespace that is not seen from here, nor are its mounts
    struct statfs fs {};
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
  }
  return lists_as_proc(fmt::format("/proc/{}/mountinfo", pid),
                       fmt::format("{}:{}", file.stx_dev_major, file.stx_dev_minor));
}

}  // namespace

Status check_memory_fd(int fd, int pid) {
  if (!is_on_proc(fd, pid)) return Status(EINVAL);
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDWR) return Status(EINVAL);
  std::array<char, 64> target{};
  const ssize_t size =
      readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  if (size <= 0) return Status(EINVAL);
  std::string_view path(target.data(), static_cast<size_t>(size));
  if (!path.ends_with("/mem")) return Status(EINVAL);
  path.remove_suffix(4);
  path.remove_prefix(path.rfind('/') + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), number);
  if (error != std::errc() || end != path.data() + path.size()) return Status(EINVAL);
  const bool same = pid == 0 || number == pid || has_pid_alias(pid, number);
  return same ? kOk : Status(EINVAL);
}

// Moves all bytes of the first `pieces` of batch_. Ends at an error or when nothing moves; a
// partial copy goes on where it stopped.
MemResult ProcMemory::transfer(Transfer call, uint64_t va, size_t pieces) {
  iovec* iov = batch_.data();
  for (;;) {
    while (pieces > 0 && iov->iov_len == 0) {
      ++iov;
      --pieces;
    }
    if (pieces == 0) return MemResult::kDone;
    const ssize_t moved = call(fd_.value(), iov, static_cast<int>(pieces), static_cast<off_t>(va));
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) return MemResult::kGone;  // as of an address space that has ended
    if (moved < 0) return MemResult::kFault;
    va += static_cast<uint64_t>(moved);
    for (auto left = static_cast<size_t>(moved); left > 0;) {
      const size_t step = std::min(left, iov->iov_len);
      iov->iov_base = static_cast<uint8_t*>(iov->iov_base) + step;
      iov->iov_len -= step;
      left -= step;
      if (iov->iov_len == 0 && pieces > 0) {
        ++iov;
        --pieces;
      }
    }
  }
}

MemResult ProcMemory::read(uint64_t va, std::span<const MutableBytes> to) {
  while (!to.empty()) {
    const size_t pieces = std::min(to.size(), kBatch);
    uint64_t bytes = 0;
    for (size_t i = 0; i < pieces; ++i) {
      batch_[i] = {to[i].data, to[i].size};
      bytes += to[i].size;
    }
    if (const auto result = transfer(preadv, va, pieces); result != MemResult::kDone) return result;
    va += bytes;
    to = to.subspan(pieces);
  }
  return MemResult::kDone;
}

MemResult ProcMemory::write(uint64_t va, std::span<const ConstBytes> from, bool ordered) {
  uint64_t total = 0;
  for (const auto& piece : from) total += piece.size;
  const uint64_t tail = ordered && total > kTailBytes ? kTailBytes : 0;
  uint64_t body = total - tail;  // bytes that go before the tail
  // The tail's bytes, gathered from the last pieces while the body is sent.
  std::array<uint8_t, kTailBytes> last;
  uint64_t gathered = 0;
  while (!from.empty()) {
    const size_t pieces = std::min(from.size(), kBatch);
    uint64_t bytes = 0;
    for (size_t i = 0; i < pieces; ++i) {
      const auto now = static_cast<uint32_t>(std::min<uint64_t>(from[i].size, body));
      batch_[i] = {const_cast<uint8_t*>(from[i].data), now};
      bytes += now;
      body -= now;
      const uint32_t rest = from[i].size - now;
      if (rest != 0) std::memcpy(last.data() + gathered, from[i].data + now, rest);
      gathered += rest;
    }
    if (const auto result = transfer(pwritev, va, pieces); result != MemResult::kDone) {
      return result;
    }
    va += bytes;
    from = from.subspan(pieces);
  }
  if (tail == 0) return MemResult::kDone;
  batch_[0] = {last.data(), tail};
  return transfer(pwritev, va, 1);
}

}  // namespace verbena
