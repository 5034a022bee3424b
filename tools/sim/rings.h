// The client's side of the rings in shared memory, as a provider would work on them: regions on the
// heap, entries written exactly as stack/abi says.
//
// The regions end where the layout says, so that the address sanitizer sees an engine that reads
// beyond. By region() hostile tests write what they like.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stack/abi/cqe.h"
#include "stack/abi/ring.h"
#include "stack/abi/wqe.h"
#include "stack/device.h"

namespace verbena::sim {

// Zeroed heap memory aligned to a cache line.
class RingRegion {
 public:
  explicit RingRegion(uint64_t bytes);
  Region region() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  uint64_t bytes_;
  std::unique_ptr<uint8_t[], Free> memory_;
};

// A completion entry as copied out of the ring.
struct Wc {
  uint32_t wqe_index = 0;
  Qpn qpn = 0;
  uint32_t byte_len = 0;
  uint32_t imm_wire = 0;
  Qpn src_qpn = 0;
  abi::WcOpcode opcode = abi::WcOpcode::kSend;
  abi::WcStatus status = abi::WcStatus::kSuccess;
  abi::VendorErr vendor = abi::VendorErr::kNone;
  uint8_t flags = 0;
  bool recv = false;
  bool shared = false;  // a receive of a shared receive queue: wqe_index is the slot
};

class ClientCq {
 public:
  ClientCq(Device& device, ClientId client, uint32_t cqe, bool channel, uint64_t user_handle);

  CqId id() const { return id_; }
  uint32_t depth() const { return depth_; }
  std::optional<Wc> poll();
  std::vector<Wc> poll_all();
  // Looks without consuming: how many entries wait.
  uint32_t waiting() const;
  void arm(abi::ArmKind kind);
  Status resize(uint32_t cqe);
  abi::CqHeader& header() const;
  uint32_t consumer() const { return consumer_; }
  Region region() const { return region_.region(); }

 private:
  abi::Cqe& entry(uint32_t index) const;

  Device* device_;
  ClientId client_;
  uint32_t depth_;
  RingRegion region_;
  CqId id_ = 0;
  uint32_t consumer_ = 0;
  uint32_t arms_ = 0;
};

struct SendRequest {
  abi::WrOpcode opcode = abi::WrOpcode::kSend;
  uint8_t flags = abi::kWrSignaled;
  std::vector<abi::Sge> sges;
  std::vector<uint8_t> inline_data;  // with kWrInline
  uint32_t imm_wire = 0;
  Key rkey = 0;
  uint64_t remote_va = 0;
  // UD only.
  AhId ah = 0;
  Qpn remote_qpn = 0;
  uint32_t remote_qkey = 0;
};

// The slots are handed out by whoever uses it: one that is posted must not be posted again before
// its completion.
class ClientSrq {
 public:
  ClientSrq(Device& device, ClientId client, PdId pd, const abi::CreateSrq& limits);

  SrqId id() const { return id_; }
  uint32_t depth() const { return layout_.depth; }
  const abi::SrqLayout& layout() const { return layout_; }
  Region region() const { return region_.region(); }
  void post_recv(uint32_t slot, std::span<const abi::Sge> sges);

 private:
  abi::SrqLayout layout_;
  RingRegion region_;
  SrqId id_ = 0;
  uint32_t tail_ = 0;
};

class ClientQp {
 public:
  // `srq`: 0 for a receive queue of its own.
  ClientQp(Device& device, ClientId client, PdId pd, ClientCq& send_cq, ClientCq& recv_cq,
           const abi::CreateQp& limits, QpType type = QpType::kRc, SrqId srq = 0);

  Qpn qpn() const { return created_.qpn; }
  const abi::QpLayout& layout() const { return layout_; }
  abi::QpHeader& header() const;
  uint8_t* send_slot(uint32_t index) const;
  uint8_t* recv_slot(uint32_t index) const;
  Region region() const { return region_.region(); }

  // Writes the entry and its tail; returns its index. Does not ring.
  uint32_t post_send(const SendRequest& request);
  uint32_t post_recv(std::span<const abi::Sge> sges);
  // Makes entries written by hand visible.
  void publish_send(uint32_t count = 1);
  void ring(Timestamp now) { device_->doorbell(client_, created_.doorbell_slot, now); }
  // As the provider after post_recv: a doorbell only if the daemon wants one.
  void ring_if_flushing(Timestamp now);
  // To be called when the queue pair was moved to RESET.
  void reset() { sq_tail_ = rq_tail_ = 0; }

 private:
  Device* device_;
  ClientId client_;
  abi::QpLayout layout_;
  RingRegion region_;
  Device::CreatedQp created_;
  uint32_t sq_tail_ = 0;
  uint32_t rq_tail_ = 0;
};

}  // namespace verbena::sim
