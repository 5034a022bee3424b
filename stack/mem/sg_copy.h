// Gather and scatter between packets and the SGE lists of work requests.
//
// Each piece is translated when it is touched, so a region that was deregistered or narrowed
// meanwhile is noticed. Local keys need no access right to be read and LOCAL_WRITE to be written.
#pragma once

#include <cstdint>
#include <span>

#include "stack/abi/cqe.h"
#include "stack/abi/wqe.h"
#include "stack/mem/mr_table.h"
#include "stack/mem/placement.h"

namespace verbena {

struct CopyResult {
  enum class Kind : uint8_t {
    kDone,
    kLater,  // client memory not ready: ask for the same bytes again later
    kError,
  };
  Kind kind = Kind::kDone;
  abi::VendorErr vendor = abi::VendorErr::kNone;  // of an error; the status is a protection error

  bool ok() const { return kind == Kind::kDone; }
};

// Copies bytes [offset, offset + sum of pieces) of the message that `sges` describe into `pieces`.
// The message is at least that long.
CopyResult gather(const MrTable& mrs, PdId pd, std::span<const abi::Sge> sges, uint64_t offset,
                  std::span<const MutableBytes> pieces);

// Checks that all of `sges` may be used with `access`.
CopyResult check_sges(const MrTable& mrs, PdId pd, std::span<const abi::Sge> sges, uint32_t access);

}  // namespace verbena
