#include "stack/qp/store.h"

#include <algorithm>

#include "stack/qp/completer.h"
#include "stack/qp/responder.h"
#include "stack/qp/ud.h"

namespace verbena {

Qp* flush_placement(Engine& engine) {
  if (engine.placement.empty()) return nullptr;
  const Placement::Owner owner = engine.placement.owner();
  const MemResult result = engine.placement.flush();
  if (result == MemResult::kDone) return nullptr;
  const RxVerdict verdict = engine.verdict;
  if (owner.qp->type == QpType::kUd) {
    ud::on_store_failed(engine, *owner.qp, result);
  } else if (owner.response) {
    completer::on_store_failed(engine, *owner.qp, result);
  } else {
    responder::on_store_failed(engine, *owner.qp, owner.psn, result);
  }
  // What happened to an earlier packet of another queue pair says nothing about this one.
  if (owner.qp != engine.receiving) engine.verdict = verdict;
  return owner.qp;
}

bool store(Engine& engine, const Placement::Owner& owner, const Translation& where,
           std::span<const uint8_t> bytes) {
  if (bytes.empty()) return true;
  if (!engine.placement.fits(owner, where) && flush_placement(engine) == owner.qp) return false;
  if (engine.placement.empty()) {
    // Where to fall back to if these bytes cannot be stored.
    Qp& qp = *owner.qp;
    if (owner.response) {
      qp.req.read_checkpoint = qp.sq.at(qp.req.oldest_read()).responses;
    } else {
      qp.resp.checkpoint = qp.resp.at;
    }
  }
  engine.placement.add(owner, where, {bytes.data(), static_cast<uint32_t>(bytes.size())});
  return true;
}

CopyResult scatter_to_sges(Engine& engine, const Placement::Owner& owner, PdId pd,
                           std::span<const abi::Sge> sges, uint64_t offset,
                           std::span<const uint8_t> bytes) {
  for (const abi::Sge& sge : sges) {
    if (bytes.empty()) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint64_t take = std::min<uint64_t>(sge.length - offset, bytes.size());
    Translation where;
    const MrError error =
        engine.mrs.translate(sge.lkey, pd, sge.va + offset, take, kAccessLocalWrite, where);
    if (error != MrError::kNone) {
      return {CopyResult::Kind::kError, error == MrError::kOutOfRange ? abi::VendorErr::kLocalRange
                                                                      : abi::VendorErr::kBadLkey};
    }
    if (!store(engine, owner, where, bytes.first(take))) return {CopyResult::Kind::kLater};
    bytes = bytes.subspan(take);
    offset = 0;
  }
  return {};
}

}  // namespace verbena
