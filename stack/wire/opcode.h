// BTH opcodes and the table of what each one carries.
//
// One row per opcode (facts of IBTA vol. 1 ch. 9.2, table "OpCode field"): the headers after the
// BTH, where in a message it stands, and what it asks of the peer. All code that needs to know a
// property of an opcode asks this table; there are no `if` ladders over opcodes elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena {

enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0A,
  kWriteOnlyImm = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseMiddle = 0x0E,
  kReadResponseLast = 0x0F,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInv = 0x16,
  kSendOnlyInv = 0x17,
  // UC has the SEND and WRITE rows of RC with 0x20 added; UD only these two.
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

enum class Transport : uint8_t { kRc = 0x00, kUc = 0x20, kUd = 0x60, kCnp = 0x80 };

// What an opcode does, without its position in the message.
enum class Operation : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomic,
  kAtomicAcknowledge,
  kCnp,
};

enum class Position : uint8_t { kFirst, kMiddle, kLast, kOnly };

struct OpcodeInfo {
  std::string_view name;  // as tshark writes it, e.g. "SEND First"; empty: the opcode is unknown
  Transport transport = Transport::kRc;
  Operation operation = Operation::kSend;
  Position position = Position::kOnly;
  bool has_reth = false;
  bool has_aeth = false;
  bool has_imm = false;
  bool has_ieth = false;
  bool has_atomic_eth = false;
  bool has_atomic_ack_eth = false;
  bool has_deth = false;
  bool has_payload = false;
  uint8_t header_bytes = 0;  // BTH and extended headers (CNP: with its 16 reserved bytes)

  constexpr bool known() const { return !name.empty(); }
  constexpr bool starts_message() const {
    return position == Position::kFirst || position == Position::kOnly;
  }
  constexpr bool ends_message() const {
    return position == Position::kLast || position == Position::kOnly;
  }
  constexpr bool is_response() const {
    return operation == Operation::kReadResponse || operation == Operation::kAcknowledge ||
           operation == Operation::kAtomicAcknowledge;
  }
};

// The row of any of the 256 byte values. Never fails: unknown ones answer known() == false.
const OpcodeInfo& opcode_info(uint8_t opcode);
inline const OpcodeInfo& opcode_info(Opcode opcode) {
  return opcode_info(static_cast<uint8_t>(opcode));
}

}  // namespace verbena
