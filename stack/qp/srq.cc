#include "stack/qp/srq.h"

#include <atomic>
#include <cstring>

namespace verbena {
namespace {

uint32_t load_tail(const Region& region) {
  return reinterpret_cast<abi::SrqHeader*>(region.base)->tail.load(std::memory_order_acquire);
}

}  // namespace

Srq::Srq(SrqId id, ClientId client, const SrqSpec& spec)
    : id_(id),
      client_(client),
      pd_(spec.pd),
      user_handle_(spec.user_handle),
      limit_(spec.limit),
      layout_(spec.layout),
      region_(spec.region),
      returned_(spec.layout.depth) {}

RecvQueue::Take Srq::next_slot(uint32_t& slot) {
  if (!returned_.empty()) {
    slot = returned_.front();
    returned_.pop();
    return RecvQueue::Take::kTaken;
  }
  const uint32_t waiting = load_tail(region_) - head_;
  if (waiting > layout_.depth) return RecvQueue::Take::kBrokenRing;
  if (waiting == 0) return RecvQueue::Take::kEmpty;
  const uint8_t* entry = region_.base + layout_.index_offset +
                         uint64_t{head_ & (layout_.depth - 1)} * sizeof(uint32_t);
  std::memcpy(&slot, entry, sizeof slot);
  ++head_;
  return slot < layout_.depth ? RecvQueue::Take::kTaken : RecvQueue::Take::kBrokenRing;
}

RecvQueue::Take Srq::take(RecvWr& wr, std::span<abi::Sge> sges, EventQueue& events) {
  uint32_t slot;
  const RecvQueue::Take next = next_slot(slot);
  if (next != RecvQueue::Take::kTaken) return next;
  const uint8_t* entry = region_.base + layout_.slots_offset + uint64_t{slot} * layout_.stride;
  const bool good = copy_recv_wqe(entry, layout_.max_sge, sges.data(), wr);
  wr.index = slot;
  check_limit(events);
  return good ? RecvQueue::Take::kTaken : RecvQueue::Take::kMalformed;
}

void Srq::give_back(uint32_t slot) {
  // Full only if the client posted one slot twice: then it has lost nothing of worth.
  (void)returned_.push(slot);
}

void Srq::check_limit(EventQueue& events) {
  if (limit_ == 0) return;
  const uint64_t left = uint64_t{load_tail(region_) - head_} + returned_.size();
  if (left >= limit_) return;
  if (events.push({DeviceEvent::Kind::kSrqAsync, AsyncEventType::kSrqLimitReached, client_, id_,
                   user_handle_})) {
    limit_ = 0;
  }
}

}  // namespace verbena
