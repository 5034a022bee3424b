#include "stack/cq/cq.h"

#include <bit>
#include <cstring>

namespace verbena {
namespace {

abi::Cqe& entry(const Region& region, uint32_t depth, uint32_t index) {
  auto* entries = reinterpret_cast<abi::Cqe*>(region.base + abi::kCqEntriesOffset);
  return entries[index & (depth - 1)];
}

}  // namespace

Cq::Cq(CqId id, ClientId client, const CqSpec& spec)
    : id_(id),
      client_(client),
      user_handle_(spec.user_handle),
      depth_(spec.depth),
      has_channel_(spec.has_channel),
      region_(spec.region) {
  VERBENA_ASSERT(std::has_single_bit(depth_));
  VERBENA_ASSERT(region_.bytes >= region_bytes(depth_));
}

abi::Cqe& Cq::slot(uint32_t index) const {
  return entry(region_, depth_, index);
}

bool Cq::full() {
  if (producer_ - consumer_seen_ < depth_) return false;
  consumer_seen_ = header().consumer.load(std::memory_order_acquire);
  return producer_ - consumer_seen_ >= depth_;
}

bool Cq::push(const Completion& completion, Timestamp now, EventQueue& events) {
  if (in_error_) return false;
  if (full()) {
    in_error_ = true;
    (void)events.push(
        {DeviceEvent::Kind::kCqAsync, AsyncEventType::kCqErr, client_, id_, user_handle_});
    return false;
  }
  abi::Cqe& cqe = slot(producer_);
  cqe.timestamp_ns = now;
  cqe.wqe_index = completion.wqe_index;
  cqe.qpn = completion.qpn;
  cqe.byte_len = completion.byte_len;
  cqe.imm_wire = completion.imm_wire;
  cqe.src_qpn = completion.src_qpn;
  cqe.opcode = static_cast<uint8_t>(completion.opcode);
  cqe.status = static_cast<uint8_t>(completion.status);
  cqe.vendor_err = static_cast<uint8_t>(completion.vendor_err);
  cqe.flags = completion.flags;
  cqe.kind = completion.kind;
  ++producer_;
  cqe.sequence.store(producer_, std::memory_order_release);
  if (has_channel_) notify(completion, events);
  return true;
}

void Cq::notify(const Completion& completion, EventQueue& events) {
  // Pairs with the client's fence between arming and its next poll: either it sees the entry, or
  // we see the arm.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t arm = header().arm.load(std::memory_order_relaxed);
  if (arm == fired_) return;
  const uint32_t kind = arm & 3;
  const bool wanted = kind == abi::kArmAny ||
                      (kind == abi::kArmSolicited &&
                       (completion.solicited || completion.status != abi::WcStatus::kSuccess));
  if (!wanted) return;
  // A full event queue leaves the arm unspent: the next entry tries again.
  if (!events.push(
          {DeviceEvent::Kind::kCompletion, AsyncEventType::kCqErr, client_, id_, user_handle_})) {
    return;
  }
  fired_ = arm;
  header().fired.store(arm, std::memory_order_release);
}

Status Cq::resize(uint32_t depth, Region region) {
  VERBENA_ASSERT(std::has_single_bit(depth) && region.bytes >= region_bytes(depth));
  const uint32_t consumer = header().consumer.load(std::memory_order_acquire);
  const uint32_t waiting = producer_ - consumer;
  if (waiting > depth_ || waiting > depth) return Status(EINVAL);
  auto* fresh = reinterpret_cast<abi::CqHeader*>(region.base);
  fresh->consumer.store(consumer, std::memory_order_relaxed);
  fresh->arm.store(header().arm.load(std::memory_order_relaxed), std::memory_order_relaxed);
  fresh->fired.store(fired_, std::memory_order_relaxed);
  for (uint32_t i = consumer; i != producer_; ++i) {
    abi::Cqe& from = slot(i);
    abi::Cqe& to = entry(region, depth, i);
    std::memcpy(static_cast<void*>(&to), &from, offsetof(abi::Cqe, sequence));
    to.sequence.store(i + 1, std::memory_order_release);
  }
  depth_ = depth;
  region_ = region;
  consumer_seen_ = consumer;
  return kOk;
}

}  // namespace verbena
