// Completion queue entry: 64 bytes, written by the daemon.
//
// `sequence` is the entry's free-running index plus one and is stored last, with release order; the
// consumer of index i takes slot i & (depth - 1) when its sequence reads i + 1 (acquire). The
// client may overwrite `kind` with kCqeDead to discard an entry of a destroyed or reset queue pair.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::abi {

enum class WcStatus : uint8_t {  // the numbers of enum ibv_wc_status
  kSuccess = 0,
  kLocLen = 1,
  kLocQpOp = 2,
  kLocProt = 4,
  kWrFlush = 5,
  kMwBind = 6,
  kBadResp = 7,
  kLocAccess = 8,
  kRemInvReq = 9,
  kRemAccess = 10,
  kRemOp = 11,
  kRetryExc = 12,
  kRnrRetryExc = 13,
  kRemAbort = 16,
  kFatal = 19,
  kGeneral = 21,
};

enum class WcOpcode : uint8_t {  // the numbers of enum ibv_wc_opcode
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kRecv = 128,
  kRecvWriteImm = 129,
};

// kCqeSrqRecv: the work request was in slot wqe_index of the queue pair's shared receive queue.
enum CqeKind : uint8_t { kCqeSend = 1, kCqeRecv = 2, kCqeDead = 3, kCqeSrqRecv = 4 };

enum CqeFlags : uint8_t {  // the numbers of enum ibv_wc_flags
  kWcGrh = 1 << 0,
  kWcWithImm = 1 << 1,
  kWcWithInv = 1 << 3,
};

// vendor_err: why, in our own stable numbering (see docs/verbs-support.md).
enum class VendorErr : uint8_t {
  kNone = 0,
  kBadWqe = 0x01,        // entry breaks a rule of wqe.h
  kBadLkey = 0x02,       // unknown, other PD, or without the needed access
  kLocalRange = 0x03,    // outside the region
  kLocalFault = 0x04,    // the region's memory is gone
  kRecvTooShort = 0x05,  // message longer than the receive buffer
  kNakInvalidRequest = 0x11,
  kNakRemoteAccess = 0x12,
  kNakRemoteOperational = 0x13,
  kTimeoutExhausted = 0x20,   // no answer
  kSequenceExhausted = 0x21,  // PSN sequence NAKs
  kImpliedExhausted = 0x22,   // implied NAKs
  kRnrExhausted = 0x23,
  kBadResponse = 0x24,
  kRemoteAccessHere = 0x30,  // the receive in use when a peer broke an access rule
  kFlushed = 0xF9,
  kDaemonGone = 0xFA,  // made by the provider: the daemon ended
};

struct Cqe {
  uint64_t timestamp_ns;
  uint32_t wqe_index;  // free-running index of the work request in its ring
  uint32_t qpn;        // local QP number
  uint32_t byte_len;
  uint32_t imm_wire;  // immediate in network order, or the invalidated rkey (host order)
  uint32_t src_qpn;
  uint32_t reserved0[5];
  uint8_t opcode;      // WcOpcode
  uint8_t status;      // WcStatus
  uint8_t vendor_err;  // VendorErr
  uint8_t flags;       // CqeFlags
  uint8_t kind;        // CqeKind
  uint8_t reserved1[3];
  uint32_t reserved2;
  std::atomic<uint32_t> sequence;
};
static_assert(sizeof(Cqe) == 64);

}  // namespace verbena::abi
