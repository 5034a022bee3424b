#include "stack/qp/work_queue.h"

#include <cstring>

namespace verbena {
namespace {

abi::QpHeader& header(const Region& region) {
  return *reinterpret_cast<abi::QpHeader*>(region.base);
}

}  // namespace

SendQueue::SendQueue(const abi::QpLayout& layout, Region region, uint32_t max_msg_bytes)
    : region_(region),
      offset_(layout.sq_offset),
      stride_(layout.sq_stride),
      depth_(layout.sq_depth),
      max_sge_(layout.max_send_sge),
      max_inline_(layout.max_inline_data),
      max_msg_bytes_(max_msg_bytes),
      wrs_(std::make_unique<SendWr[]>(depth_)),
      sges_(std::make_unique<abi::Sge[]>(size_t{depth_} * max_sge_)) {}

void SendQueue::reset() {
  head = fetched = 0;
}

const uint8_t* SendQueue::slot(uint32_t index) const {
  return region_.base + offset_ + uint64_t{index & (depth_ - 1)} * stride_;
}

bool SendQueue::tail(uint32_t& tail) const {
  tail = header(region_).sq_tail.load(std::memory_order_acquire);
  return tail - head <= depth_ && tail - head >= fetched - head;
}

WqeCheck SendQueue::fetch(SendWr& wr) {
  abi::SendWqe wqe;
  std::memcpy(&wqe, slot(fetched), sizeof wqe);
  wr = SendWr{};
  wr.flags = wqe.flags;
  wr.opcode = static_cast<abi::WrOpcode>(wqe.opcode);
  wr.imm_wire = wqe.imm_wire;
  wr.rkey = wqe.rkey;
  wr.remote_va = wqe.remote_va;
  wr.ah = wqe.ah;
  wr.remote_qpn = wqe.remote_qpn;
  wr.remote_qkey = wqe.remote_qkey;
  if (!wr.is_send() && !wr.is_write() && !wr.is_read()) return WqeCheck::kBadOpcode;
  if (wr.is_inline()) {
    if (wr.is_read()) return WqeCheck::kBadOpcode;
    if (wqe.inline_length > max_inline_ || wqe.num_sge != 0) return WqeCheck::kBadSge;
    wr.length = wqe.inline_length;
    return WqeCheck::kGood;
  }
  if (wqe.num_sge > max_sge_) return WqeCheck::kBadSge;
  wr.num_sge = wqe.num_sge;
  abi::Sge* sges = &sges_[size_t{fetched & (depth_ - 1)} * max_sge_];
  std::memcpy(sges, slot(fetched) + sizeof wqe, wr.num_sge * sizeof(abi::Sge));
  uint64_t length = 0;
  for (uint32_t i = 0; i < wr.num_sge; ++i) length += sges[i].length;
  if (length > max_msg_bytes_) return WqeCheck::kTooLong;
  wr.length = static_cast<uint32_t>(length);
  return WqeCheck::kGood;
}

std::span<const abi::Sge> SendQueue::sges(uint32_t index) const {
  const uint32_t slot_index = index & (depth_ - 1);
  return {&sges_[size_t{slot_index} * max_sge_], wrs_[slot_index].num_sge};
}

const uint8_t* SendQueue::inline_data(uint32_t index) const {
  return slot(index) + sizeof(abi::SendWqe);
}

bool copy_recv_wqe(const uint8_t* entry, uint32_t max_sge, abi::Sge* sges, RecvWr& wr) {
  abi::RecvWqe wqe;
  std::memcpy(&wqe, entry, sizeof wqe);
  wr = RecvWr{};
  if (wqe.num_sge > max_sge) return false;
  wr.num_sge = wqe.num_sge;
  std::memcpy(sges, entry + sizeof wqe, wr.num_sge * sizeof(abi::Sge));
  for (uint32_t i = 0; i < wr.num_sge; ++i) wr.length += sges[i].length;
  return true;
}

RecvQueue::RecvQueue(const abi::QpLayout& layout, Region region)
    : region_(region),
      offset_(layout.rq_offset),
      stride_(layout.rq_stride),
      depth_(layout.rq_depth),
      max_sge_(layout.max_recv_sge),
      sges_(std::make_unique<abi::Sge[]>(max_sge_)) {}

bool RecvQueue::tail(uint32_t& tail) const {
  tail = header(region_).rq_tail.load(std::memory_order_acquire);
  return tail - head <= depth_;
}

RecvQueue::Take RecvQueue::take(RecvWr& wr) {
  uint32_t tail_now;
  if (!tail(tail_now)) return Take::kBrokenRing;
  if (tail_now == head) return Take::kEmpty;
  const uint8_t* slot = region_.base + offset_ + uint64_t{head & (depth_ - 1)} * stride_;
  const bool good = copy_recv_wqe(slot, max_sge_, sges_.get(), wr);
  wr.index = head++;
  return good ? Take::kTaken : Take::kMalformed;
}

}  // namespace verbena
