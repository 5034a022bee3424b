// Shared receive queues: posting, and slots that come back.
//
// A posted work request lies in a slot from the list of free ones; the index ring tells the daemon
// the order. The slot is free again when the application takes the completion, or when that is
// discarded with its queue pair.

#include <cerrno>
#include <cstring>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

int write_recv(Srq& srq, const ibv_recv_wr& wr, uint32_t next) {
  const uint32_t slot = srq.first_free;
  if (slot == Srq::kLast) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > srq.max_sge) return EINVAL;
  uint8_t* out = srq.slots + static_cast<size_t>(slot) * srq.stride;
  abi::RecvWqe wqe{};
  wqe.num_sge = static_cast<uint32_t>(wr.num_sge);
  std::memcpy(out, &wqe, sizeof wqe);
  if (wr.num_sge > 0) {
    std::memcpy(out + sizeof wqe, wr.sg_list, sizeof(abi::Sge) * wqe.num_sge);
  }
  srq.first_free = srq.slot_table[slot].next;
  srq.slot_table[slot] = {wr.wr_id, Srq::kPosted};
  srq.index[next & srq.mask].store(slot, std::memory_order_relaxed);
  return 0;
}

}  // namespace

int post_srq_recv(ibv_srq* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Srq& srq = *to_srq(ibv);
  int error = 0;
  SpinGuard guard(srq.lock);
  uint32_t next = srq.tail;
  for (; wr != nullptr; wr = wr->next) {
    error = write_recv(srq, *wr, next);
    if (error != 0) {
      *bad_wr = wr;
      break;
    }
    ++next;
  }
  srq.tail = next;
  srq.header->tail.store(next, std::memory_order_release);
  return error;
}

uint64_t retire_srq_slot(Srq& srq, uint32_t slot) {
  SpinGuard guard(srq.lock);
  if (slot >= srq.max_wr) return 0;
  Srq::Slot& entry = srq.slot_table[slot];
  // A slot that is free already stays once in the list, whatever the completion queue holds.
  if (entry.next == Srq::kPosted) {
    entry.next = srq.first_free;
    srq.first_free = slot;
  }
  return entry.wr_id;
}

}  // namespace verbena::provider
