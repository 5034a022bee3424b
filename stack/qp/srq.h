// Srq: a shared receive queue. Its queue pairs take receive work requests in the order they were
// posted; completions come in any order, so a work request is named by its slot (see
// abi::SrqHeader).
//
// The ring is memory that the client writes at will: slot numbers and entries are copied once and
// checked. A limit event comes once when fewer work requests than the armed limit remain
// (QP-ERR-7).
#pragma once

#include <cstdint>
#include <span>

#include "stack/abi/ring.h"
#include "stack/abi/wqe.h"
#include "stack/base/fixed_ring.h"
#include "stack/cq/event_queue.h"
#include "stack/objects.h"
#include "stack/qp/work_queue.h"

namespace verbena {

class Srq {
 public:
  Srq(SrqId id, ClientId client, const SrqSpec& spec);

  ClientId client() const { return client_; }
  PdId pd() const { return pd_; }
  uint32_t max_sge() const { return layout_.max_sge; }
  const abi::SrqLayout& layout() const { return layout_; }
  uint32_t limit() const { return limit_; }
  void arm_limit(uint32_t limit) { limit_ = limit; }

  // Takes the oldest work request; its SGEs are copied to `sges`, which holds max_sge().
  RecvQueue::Take take(RecvWr& wr, std::span<abi::Sge> sges, EventQueue& events);

  // A work request that its queue pair took and will not complete is the next to be taken.
  void give_back(uint32_t slot);

  uint32_t users = 0;  // queue pairs attached

 private:
  RecvQueue::Take next_slot(uint32_t& slot);
  void check_limit(EventQueue& events);

  SrqId id_;
  ClientId client_;
  PdId pd_;
  uint64_t user_handle_;
  uint32_t limit_;
  abi::SrqLayout layout_;
  Region region_;
  uint32_t head_ = 0;
  FixedRing<uint32_t> returned_;
};

}  // namespace verbena
