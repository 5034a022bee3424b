#include "stack/mem/sg_copy.h"

#include <algorithm>
#include <array>

namespace verbena {
namespace {

abi::VendorErr vendor_of(MrError error) {
  return error == MrError::kOutOfRange ? abi::VendorErr::kLocalRange : abi::VendorErr::kBadLkey;
}

// Walks `pieces` in portions of wanted lengths.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const MutableBytes> pieces) : pieces_(pieces) {}

  // The next up to `length` bytes as pieces in `out`; returns how many bytes those hold.
  uint64_t next(uint64_t length, std::span<MutableBytes> out, size_t& count) {
    uint64_t bytes = 0;
    count = 0;
    while (bytes < length && index_ < pieces_.size() && count < out.size()) {
      const MutableBytes& piece = pieces_[index_];
      const auto n = static_cast<uint32_t>(std::min<uint64_t>(piece.size - used_, length - bytes));
      if (n != 0) out[count++] = {piece.data + used_, n};
      bytes += n;
      used_ += n;
      if (used_ == piece.size) {
        ++index_;
        used_ = 0;
      }
    }
    return bytes;
  }

 private:
  std::span<const MutableBytes> pieces_;
  size_t index_ = 0;
  uint32_t used_ = 0;
};

}  // namespace

CopyResult gather(const MrTable& mrs, PdId pd, std::span<const abi::Sge> sges, uint64_t offset,
                  std::span<const MutableBytes> pieces) {
  uint64_t left = 0;
  for (const MutableBytes& piece : pieces) left += piece.size;
  PieceCursor cursor(pieces);
  std::array<MutableBytes, Placement::kMaxPieces> part;
  for (const abi::Sge& sge : sges) {
    if (left == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    uint64_t take = std::min<uint64_t>(sge.length - offset, left);
    Translation where;
    const MrError error = mrs.translate(sge.lkey, pd, sge.va + offset, take, 0, where);
    if (error != MrError::kNone) return {CopyResult::Kind::kError, vendor_of(error)};
    offset = 0;
    left -= take;
    while (take != 0) {
      size_t count;
      const uint64_t bytes = cursor.next(take, part, count);
      const MemResult result = where.memory->read(where.va, {part.data(), count});
      if (result == MemResult::kLater) return {CopyResult::Kind::kLater};
      if (result != MemResult::kDone) {
        return {CopyResult::Kind::kError, abi::VendorErr::kLocalFault};
      }
      where.va += bytes;
      take -= bytes;
    }
  }
  return {};
}

CopyResult check_sges(const MrTable& mrs, PdId pd, std::span<const abi::Sge> sges,
                      uint32_t access) {
  for (const abi::Sge& sge : sges) {
    if (sge.length == 0) continue;
    Translation where;
    const MrError error = mrs.translate(sge.lkey, pd, sge.va, sge.length, access, where);
    if (error != MrError::kNone) return {CopyResult::Kind::kError, vendor_of(error)};
  }
  return {};
}

}  // namespace verbena
