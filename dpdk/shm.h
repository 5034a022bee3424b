// Shared memory between the daemon and a client: sealed memfds, mapped and filled by the control
// thread, so that the polling thread takes no page fault but where a client punched a hole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dpdk/unique_fd.h"
#include "stack/base/result.h"

namespace verbena {

// A mapping of this process, and the memfd behind it until that is given away.
class SharedRegion {
 public:
  enum class ClientAccess { kReadWrite, kReadOnly };

  SharedRegion() = default;
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  // `bytes` of zeros, rounded up to pages. Can be neither shrunk nor grown afterwards. kReadOnly:
  // only the mapping made here can be written.
  static Result<SharedRegion> create(const char* name, uint64_t bytes, ClientAccess access);

  uint8_t* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.value(); }
  UniqueFd take_fd() { return std::move(fd_); }

 private:
  UniqueFd fd_;
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
};

// A client can punch holes into its own regions. The daemon gets zeros there, which breaks that
// client's rings and nothing else; but where the system has no page left to give, the touch is a
// SIGBUS. After this call such a page is replaced by a spare one that all lost pages share: nobody
// believes what stands in a ring. Any other SIGBUS still ends the process. Once, at start; throws
// std::runtime_error when there is no memory for the spare page.
void survive_lost_pages();

// A sealed memfd with `text`, readable from offset 0.
Result<UniqueFd> text_memfd(std::string_view text);

}  // namespace verbena
