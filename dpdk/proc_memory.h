// ProcMemory: a client's address space through its own /proc/self/mem, opened by the client.
//
// Works for every kind of mapping, across user namespaces, and ends when the client execs. The file
// ignores page protection: the provider checks the mappings at registration.
//
// Polling thread only, apart from construction and destruction.
#pragma once

#include <sys/uio.h>

#include <array>

#include "dpdk/unique_fd.h"
#include "stack/base/result.h"
#include "stack/mem/client_memory.h"

namespace verbena {

// EINVAL unless `fd` is the read-write memory file of process `pid` (0: not visible from here, then
// of some process).
Status check_memory_fd(int fd, int pid);

class ProcMemory final : public ClientMemory {
 public:
  explicit ProcMemory(UniqueFd fd) : fd_(std::move(fd)) {}

  MemResult read(uint64_t va, std::span<const MutableBytes> to) override;
  MemResult write(uint64_t va, std::span<const ConstBytes> from, bool ordered) override;

 private:
  static constexpr size_t kBatch = 64;
  using Transfer = ssize_t (*)(int, const iovec*, int, off_t);

  MemResult transfer(Transfer call, uint64_t va, size_t pieces);

  UniqueFd fd_;
  std::array<iovec, kBatch> batch_;
};

}  // namespace verbena
