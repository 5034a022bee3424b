// Work queue entries as a client writes them into its send and receive rings.
//
// A send entry is a 64-byte head followed by either num_sge Sge or inline_length bytes of inline
// data; its stride in the ring is QpLayout::sq_stride. A receive entry is a 16-byte head followed
// by its Sge list. Sizes in bytes, numbers little-endian, except imm_wire (network order, opaque).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::abi {

struct Sge {
  uint64_t va;
  uint32_t length;
  uint32_t lkey;
};
static_assert(sizeof(Sge) == 16);

// The numbers of enum ibv_wr_opcode.
enum class WrOpcode : uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendInv = 9,
};

enum WrFlags : uint8_t {  // the numbers of enum ibv_send_flags
  kWrFence = 1 << 0,
  kWrSignaled = 1 << 1,
  kWrSolicited = 1 << 2,
  kWrInline = 1 << 3,
};

struct SendWqe {
  uint8_t opcode;          // WrOpcode
  uint8_t flags;           // WrFlags
  uint16_t num_sge;        // 0 when inline
  uint32_t inline_length;  // bytes after the head; 0 unless kWrInline
  uint32_t imm_wire;       // immediate data in network order, or the rkey to invalidate
  uint32_t rkey;
  uint64_t remote_va;
  uint64_t compare_add;
  uint64_t swap;
  // UD only
  uint32_t ah;  // handle from kCreateAh
  uint32_t remote_qpn;
  uint32_t remote_qkey;
  uint32_t reserved[3];
};
static_assert(sizeof(SendWqe) == 64);

struct RecvWqe {
  uint32_t num_sge;
  uint32_t reserved[3];
};
static_assert(sizeof(RecvWqe) == 16);

}  // namespace verbena::abi
