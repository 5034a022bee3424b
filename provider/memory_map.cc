// Are these pages mapped, and how? The daemon reads and writes a client's memory through its
// /proc/self/mem, which ignores page protection, so registration answers here as the kernel would:
// EFAULT for what the program itself could not read (or write).

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

struct Vma {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
};

uint64_t take_hex(const char*& p) {
  uint64_t value = 0;
  for (;; ++p) {
    if (*p >= '0' && *p <= '9') {
      value = value << 4 | static_cast<uint64_t>(*p - '0');
    } else if (*p >= 'a' && *p <= 'f') {
      value = value << 4 | static_cast<uint64_t>(*p - 'a' + 10);
    } else {
      return value;
    }
  }
}

// "7f0000000000-7f0000001000 rw-p ..."
Vma parse_line(const char* line) {
  Vma vma;
  vma.begin = take_hex(line);
  if (*line != '-') return {};
  ++line;
  vma.end = take_hex(line);
  if (*line != ' ') return {};
  vma.readable = line[1] == 'r';
  vma.writable = line[1] != '\0' && line[2] == 'w';
  return vma;
}

// Lines of /proc/self/maps, each cut to what fits: the interesting part stands in front.
class MapsReader {
 public:
  MapsReader() : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsReader() {
    if (fd_ >= 0) close(fd_);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  bool ok() const { return fd_ >= 0; }

  bool next(Vma& vma) {
    char line[64];
    size_t length = 0;
    for (;;) {
      if (at_ == filled_ && !fill()) return false;
      const char c = buffer_[at_++];
      if (c == '\n') break;
      if (length < sizeof line - 1) line[length++] = c;
    }
    line[length] = '\0';
    vma = parse_line(line);
    return true;
  }

 private:
  bool fill() {
    ssize_t got;
    do {
      got = read(fd_, buffer_, sizeof buffer_);
    } while (got < 0 && errno == EINTR);
    at_ = 0;
    filled_ = got > 0 ? static_cast<size_t>(got) : 0;
    return filled_ != 0;
  }

  int fd_;
  size_t at_ = 0;
  size_t filled_ = 0;
  char buffer_[8192];
};

}  // namespace

int check_mapped(uint64_t begin, uint64_t length, bool writable) {
  MapsReader maps;
  if (!maps.ok()) return errno;
  const uint64_t end = begin + length;
  // Lines come in ascending order. Two may overlap when another thread changes its mappings while
  // we read, which does no harm.
  Vma vma;
  while (begin < end && maps.next(vma)) {
    if (vma.end <= begin) continue;
    if (vma.begin > begin) return EFAULT;
    if (!vma.readable || (writable && !vma.writable)) return EFAULT;
    begin = vma.end;
  }
  return begin < end ? EFAULT : 0;
}

}  // namespace verbena::provider
