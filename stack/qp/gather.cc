#include "stack/qp/gather.h"

#include <cstring>

namespace verbena {
namespace {

void copy_inline(const uint8_t* data, std::span<const MutableBytes> to) {
  for (const MutableBytes& piece : to) {
    std::memcpy(piece.data, data, piece.size);
    data += piece.size;
  }
}

}  // namespace

CopyResult gather_message(Engine& engine, const Qp& qp, const SendWr& wr, uint32_t index,
                          uint64_t offset, std::span<const MutableBytes> payloads) {
  if (wr.length == 0) return {};
  if (wr.is_inline()) {
    copy_inline(qp.sq.inline_data(index) + offset, payloads);
    return {};
  }
  return gather(engine.mrs, qp.pd, qp.sq.sges(index), offset, payloads);
}

}  // namespace verbena
