// ClientMemory: how the engine reaches bytes in a client's address space.
//
// The engine never holds a client pointer. It validates (key, address, length, access) in the MTT
// and then asks here for a copy. The daemon implements it by the client's /proc/self/mem (a copy
// that always works) and later by pages mapped in both processes; tests implement it by a vector.
//
// Called by the device's thread only. A call may be vectored so that one system call serves many
// packets. Nothing here may throw or block beyond the copy itself.
#pragma once

#include <cstdint>
#include <span>

namespace verbena {

enum class MemResult : uint8_t {
  kDone,
  kFault,  // the address range is not there (any more)
  kGone,   // the whole address space is not there any more: its process has ended
  kLater,  // not ready now; asking again later will help, and nothing was copied
};

struct ConstBytes {
  const uint8_t* data;
  uint32_t size;
};
struct MutableBytes {
  uint8_t* data;
  uint32_t size;
};

class ClientMemory {
 public:
  virtual ~ClientMemory() = default;

  // Copies client bytes from `va` on into the pieces, in order.
  virtual MemResult read(uint64_t va, std::span<const MutableBytes> to) = 0;

  // Copies the pieces to client memory from `va` on. When `ordered`, the last 8 bytes become
  // visible after all others: programs poll the last byte of an RDMA WRITE.
  virtual MemResult write(uint64_t va, std::span<const ConstBytes> from, bool ordered) = 0;

 protected:
  ClientMemory() = default;
  ClientMemory(const ClientMemory&) = default;
  ClientMemory& operator=(const ClientMemory&) = default;
};

}  // namespace verbena
