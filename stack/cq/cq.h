// Cq: writes completion entries into a client's ring and decides when to wake its channel.
//
// The ring lives in memory that the client can write. The producer index is private; the consumer
// index is read only when the ring looks full. A client that lies about it overruns its own CQ:
// overflow puts the CQ into error (rule RC-RSP-46) and writes no more.
#pragma once

#include <cstdint>

#include "stack/abi/cqe.h"
#include "stack/abi/ring.h"
#include "stack/base/result.h"
#include "stack/base/time.h"
#include "stack/cq/event_queue.h"
#include "stack/objects.h"

namespace verbena {

struct Completion {
  uint32_t wqe_index = 0;
  Qpn qpn = 0;
  uint32_t byte_len = 0;
  uint32_t imm_wire = 0;
  Qpn src_qpn = 0;
  abi::WcOpcode opcode = abi::WcOpcode::kSend;
  abi::WcStatus status = abi::WcStatus::kSuccess;
  abi::VendorErr vendor_err = abi::VendorErr::kNone;
  uint8_t flags = 0;  // abi::CqeFlags
  abi::CqeKind kind = abi::kCqeSend;
  bool solicited = false;  // wakes a channel armed for solicited events; errors always do
};

class Cq {
 public:
  Cq(CqId id, ClientId client, const CqSpec& spec);

  CqId id() const { return id_; }
  ClientId client() const { return client_; }
  bool in_error() const { return in_error_; }

  static constexpr uint64_t region_bytes(uint32_t depth) {
    return abi::kCqEntriesOffset + uint64_t{depth} * sizeof(abi::Cqe);
  }

  // False when the ring overflowed, now or before: the entry is lost and the CQ is in error.
  bool push(const Completion& completion, Timestamp now, EventQueue& events);

  // EINVAL if the unconsumed entries do not fit.
  Status resize(uint32_t depth, Region region);

  uint32_t users = 0;  // queue pairs attached, each direction counted

 private:
  abi::CqHeader& header() const { return *reinterpret_cast<abi::CqHeader*>(region_.base); }
  abi::Cqe& slot(uint32_t index) const;
  bool full();
  void notify(const Completion& completion, EventQueue& events);

  CqId id_;
  ClientId client_;
  uint64_t user_handle_;
  uint32_t depth_;
  bool has_channel_;
  Region region_;
  uint32_t producer_ = 0;
  uint32_t consumer_seen_ = 0;
  uint32_t fired_ = 0;  // ours; the header's copy is for the client's information
  bool in_error_ = false;
};

}  // namespace verbena
