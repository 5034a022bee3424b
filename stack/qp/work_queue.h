// SendQueue and RecvQueue: the daemon's side of a queue pair's rings.
//
// The rings are memory that the client writes at will. An entry is copied out once, then checked,
// and only the copy is used; the tail is read once per look. What a client breaks here costs it its
// own queue pair.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "stack/abi/ring.h"
#include "stack/abi/wqe.h"
#include "stack/objects.h"
#include "stack/wire/psn.h"

namespace verbena {

// A send work request in the daemon's own memory, from when it is fetched until it is retired.
struct SendWr {
  abi::WrOpcode opcode = abi::WrOpcode::kSend;
  uint8_t flags = 0;
  uint16_t num_sge = 0;
  uint32_t length = 0;  // bytes of the message
  uint32_t imm_wire = 0;
  Key rkey = 0;
  uint64_t remote_va = 0;
  // UD only.
  AhId ah = 0;
  Qpn remote_qpn = 0;
  uint32_t remote_qkey = 0;
  // PSNs taken: first_psn ... first_psn + packets - 1. A READ takes those of its responses.
  Psn first_psn;
  uint32_t packets = 0;
  // READ only.
  uint32_t responses = 0;   // response packets placed so far
  bool issued = false;      // the request was sent at least once
  bool restarted = false;   // requested again: a First may come at any place (RC-REQ-12)
  bool recovering = false;  // a lost response was noticed and the request is to be repeated

  bool is_read() const { return opcode == abi::WrOpcode::kRead; }
  bool has_imm() const {
    return opcode == abi::WrOpcode::kSendImm || opcode == abi::WrOpcode::kWriteImm;
  }
  bool is_write() const {
    return opcode == abi::WrOpcode::kWrite || opcode == abi::WrOpcode::kWriteImm;
  }
  bool is_send() const {
    return opcode == abi::WrOpcode::kSend || opcode == abi::WrOpcode::kSendImm;
  }
  bool is_inline() const { return (flags & abi::kWrInline) != 0; }
  Psn last_psn() const { return first_psn + (packets - 1); }
};

enum class WqeCheck : uint8_t {
  kGood,
  kBadOpcode,  // unknown, or of an operation that this device does not have
  kBadSge,     // too many SGEs or inline bytes
  kTooLong,    // message longer than the device's maximum
};

class SendQueue {
 public:
  SendQueue(const abi::QpLayout& layout, Region region, uint32_t max_msg_bytes);

  void reset();

  // Indices are free-running. [head, fetched) are in our memory, [fetched, tail) only in the ring.
  uint32_t head = 0;
  uint32_t fetched = 0;

  uint32_t depth() const { return depth_; }
  bool empty() const { return head == fetched; }
  // The client's tail; false when it claims more than the ring holds.
  bool tail(uint32_t& tail) const;

  // Copies the entry at index `fetched` into our memory and checks it. Does not advance.
  WqeCheck fetch(SendWr& wr);

  SendWr& at(uint32_t index) { return wrs_[index & (depth_ - 1)]; }
  std::span<const abi::Sge> sges(uint32_t index) const;
  // The inline bytes of an entry, in the ring itself: the client may change them, so they are only
  // ever copied, never checked.
  const uint8_t* inline_data(uint32_t index) const;

 private:
  const uint8_t* slot(uint32_t index) const;

  Region region_;
  uint64_t offset_;
  uint32_t stride_;
  uint32_t depth_;
  uint32_t max_sge_;
  uint32_t max_inline_;
  uint32_t max_msg_bytes_;
  std::unique_ptr<SendWr[]> wrs_;
  std::unique_ptr<abi::Sge[]> sges_;
};

// A receive work request being filled.
struct RecvWr {
  uint32_t index = 0;
  uint32_t num_sge = 0;
  uint64_t length = 0;  // bytes of all SGEs
};

// Copies a receive entry and its SGEs. False if it breaks a rule.
bool copy_recv_wqe(const uint8_t* entry, uint32_t max_sge, abi::Sge* sges, RecvWr& wr);

class RecvQueue {
 public:
  enum class Take : uint8_t { kTaken, kEmpty, kMalformed, kBrokenRing };

  RecvQueue(const abi::QpLayout& layout, Region region);

  void reset() { head = 0; }

  uint32_t head = 0;  // next entry to take

  bool tail(uint32_t& tail) const;

  // Takes the next entry. kMalformed: taken, but it breaks a rule. Its SGEs are valid until the
  // next take().
  Take take(RecvWr& wr);
  std::span<const abi::Sge> sges(const RecvWr& wr) const { return {sges_.get(), wr.num_sge}; }

 private:
  Region region_;
  uint64_t offset_;
  uint32_t stride_;
  uint32_t depth_;
  uint32_t max_sge_;
  std::unique_ptr<abi::Sge[]> sges_;
};

}  // namespace verbena
