#include "tools/sim/rings.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "stack/base/assert.h"

namespace verbena::sim {

namespace {

void write_recv_wqe(uint8_t* slot, std::span<const abi::Sge> sges) {
  abi::RecvWqe wqe{};
  wqe.num_sge = static_cast<uint32_t>(sges.size());
  std::memcpy(slot, &wqe, sizeof wqe);
  if (!sges.empty()) std::memcpy(slot + sizeof wqe, sges.data(), sges.size_bytes());
}

}  // namespace

RingRegion::RingRegion(uint64_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  VERBENA_ASSERT(posix_memalign(&memory, abi::kCacheLine, bytes) == 0);
  std::memset(memory, 0, bytes);
  memory_.reset(static_cast<uint8_t*>(memory));
}

void RingRegion::Free::operator()(uint8_t* p) const {
  std::free(p);
}

ClientCq::ClientCq(Device& device, ClientId client, uint32_t cqe, bool channel,
                   uint64_t user_handle)
    : device_(&device),
      client_(client),
      depth_(*device.cq_depth(cqe)),
      region_(Device::cq_region_bytes(depth_)) {
  CqSpec spec;
  spec.user_handle = user_handle;
  spec.depth = depth_;
  spec.has_channel = channel;
  spec.region = region_.region();
  id_ = *device.create_cq(client, spec);
}

abi::CqHeader& ClientCq::header() const {
  return *reinterpret_cast<abi::CqHeader*>(region_.region().base);
}

abi::Cqe& ClientCq::entry(uint32_t index) const {
  auto* entries = reinterpret_cast<abi::Cqe*>(region_.region().base + abi::kCqEntriesOffset);
  return entries[index & (depth_ - 1)];
}

std::optional<Wc> ClientCq::poll() {
  const abi::Cqe& cqe = entry(consumer_);
  if (cqe.sequence.load(std::memory_order_acquire) != consumer_ + 1) return std::nullopt;
  Wc wc;
  wc.wqe_index = cqe.wqe_index;
  wc.qpn = cqe.qpn;
  wc.byte_len = cqe.byte_len;
  wc.imm_wire = cqe.imm_wire;
  wc.src_qpn = cqe.src_qpn;
  wc.opcode = static_cast<abi::WcOpcode>(cqe.opcode);
  wc.status = static_cast<abi::WcStatus>(cqe.status);
  wc.vendor = static_cast<abi::VendorErr>(cqe.vendor_err);
  wc.flags = cqe.flags;
  wc.recv = cqe.kind != abi::kCqeSend;
  wc.shared = cqe.kind == abi::kCqeSrqRecv;
  header().consumer.store(++consumer_, std::memory_order_release);
  return wc;
}

std::vector<Wc> ClientCq::poll_all() {
  std::vector<Wc> all;
  while (const auto wc = poll()) all.push_back(*wc);
  return all;
}

uint32_t ClientCq::waiting() const {
  uint32_t count = 0;
  while (count < depth_ && entry(consumer_ + count).sequence.load() == consumer_ + count + 1) {
    ++count;
  }
  return count;
}

void ClientCq::arm(abi::ArmKind kind) {
  header().arm.store(++arms_ << 2 | kind, std::memory_order_seq_cst);
}

Status ClientCq::resize(uint32_t cqe) {
  const uint32_t depth = *device_->cq_depth(cqe);
  RingRegion fresh(Device::cq_region_bytes(depth));
  const Status status = device_->resize_cq(client_, id_, depth, fresh.region());
  if (!status.ok()) return status;
  depth_ = depth;
  region_ = std::move(fresh);
  return kOk;
}

ClientSrq::ClientSrq(Device& device, ClientId client, PdId pd, const abi::CreateSrq& limits)
    : layout_(*device.srq_layout(limits)), region_(layout_.region_bytes) {
  SrqSpec spec;
  spec.pd = pd;
  spec.limit = limits.srq_limit;
  spec.layout = layout_;
  spec.region = region_.region();
  id_ = *device.create_srq(client, spec);
}

void ClientSrq::post_recv(uint32_t slot, std::span<const abi::Sge> sges) {
  uint8_t* base = region_.region().base;
  write_recv_wqe(base + layout_.slots_offset + uint64_t{slot} * layout_.stride, sges);
  std::memcpy(base + layout_.index_offset + uint64_t{tail_ & (layout_.depth - 1)} * sizeof slot,
              &slot, sizeof slot);
  reinterpret_cast<abi::SrqHeader*>(base)->tail.store(++tail_, std::memory_order_release);
}

ClientQp::ClientQp(Device& device, ClientId client, PdId pd, ClientCq& send_cq, ClientCq& recv_cq,
                   const abi::CreateQp& limits, QpType type, SrqId srq)
    : device_(&device),
      client_(client),
      layout_(*device.qp_layout(limits)),
      region_(layout_.region_bytes) {
  QpSpec spec;
  spec.user_handle = limits.user_handle;
  spec.type = type;
  spec.srq = srq;
  spec.pd = pd;
  spec.send_cq = send_cq.id();
  spec.recv_cq = recv_cq.id();
  spec.sq_sig_all = limits.sq_sig_all != 0;
  spec.layout = layout_;
  spec.region = region_.region();
  created_ = *device.create_qp(client, spec);
}

abi::QpHeader& ClientQp::header() const {
  return *reinterpret_cast<abi::QpHeader*>(region_.region().base);
}

uint8_t* ClientQp::send_slot(uint32_t index) const {
  return region_.region().base + layout_.sq_offset +
         uint64_t{index & (layout_.sq_depth - 1)} * layout_.sq_stride;
}

uint8_t* ClientQp::recv_slot(uint32_t index) const {
  return region_.region().base + layout_.rq_offset +
         uint64_t{index & (layout_.rq_depth - 1)} * layout_.rq_stride;
}

uint32_t ClientQp::post_send(const SendRequest& request) {
  abi::SendWqe wqe{};
  wqe.opcode = static_cast<uint8_t>(request.opcode);
  wqe.flags = request.flags;
  wqe.imm_wire = request.imm_wire;
  wqe.rkey = request.rkey;
  wqe.remote_va = request.remote_va;
  wqe.ah = request.ah;
  wqe.remote_qpn = request.remote_qpn;
  wqe.remote_qkey = request.remote_qkey;
  uint8_t* slot = send_slot(sq_tail_);
  if (request.flags & abi::kWrInline) {
    wqe.inline_length = static_cast<uint32_t>(request.inline_data.size());
    if (wqe.inline_length != 0) {
      std::memcpy(slot + sizeof wqe, request.inline_data.data(), wqe.inline_length);
    }
  } else {
    wqe.num_sge = static_cast<uint16_t>(request.sges.size());
    if (wqe.num_sge != 0) {
      std::memcpy(slot + sizeof wqe, request.sges.data(), wqe.num_sge * sizeof(abi::Sge));
    }
  }
  std::memcpy(slot, &wqe, sizeof wqe);
  publish_send();
  return sq_tail_ - 1;
}

void ClientQp::publish_send(uint32_t count) {
  sq_tail_ += count;
  header().sq_tail.store(sq_tail_, std::memory_order_release);
}

uint32_t ClientQp::post_recv(std::span<const abi::Sge> sges) {
  write_recv_wqe(recv_slot(rq_tail_), sges);
  header().rq_tail.store(++rq_tail_, std::memory_order_release);
  return rq_tail_ - 1;
}

void ClientQp::ring_if_flushing(Timestamp now) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header().flushing.load(std::memory_order_relaxed) != 0) ring(now);
}

}  // namespace verbena::sim
