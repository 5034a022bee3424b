#include "stack/wire/opcode.h"

#include <array>

#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"

namespace verbena {
namespace {

using wire::AethView;
using wire::AtomicAckEthView;
using wire::AtomicEthView;
using wire::BthView;
using wire::DethView;
using wire::ImmDtView;
using wire::RethView;

using Byte = const uint8_t;
using Table = std::array<OpcodeInfo, 256>;

constexpr uint8_t kCnpReservedBytes = 16;  // IBTA Annex A17.9.3

// What follows the BTH.
enum Carries : unsigned {
  kNothing = 0,
  kReth = 1,
  kAeth = 2,
  kImm = 4,
  kIeth = 8,
  kAtomicEth = 16,
  kAtomicAckEth = 32,
  kDeth = 64,
  kPayload = 128,
};

struct Row {
  uint8_t opcode;  // without the transport's bits
  std::string_view name;
  Operation operation;
  Position position;
  unsigned carries;
};

// SEND and RDMA WRITE, which RC and UC have in common.
constexpr Row kRequestRows[] = {
    {0x00, "SEND First", Operation::kSend, Position::kFirst, kPayload},
    {0x01, "SEND Middle", Operation::kSend, Position::kMiddle, kPayload},
    {0x02, "SEND Last", Operation::kSend, Position::kLast, kPayload},
    {0x03, "SEND Last with Immediate", Operation::kSend, Position::kLast, kImm | kPayload},
    {0x04, "SEND Only", Operation::kSend, Position::kOnly, kPayload},
    {0x05, "SEND Only with Immediate", Operation::kSend, Position::kOnly, kImm | kPayload},
    {0x06, "RDMA WRITE First", Operation::kWrite, Position::kFirst, kReth | kPayload},
    {0x07, "RDMA WRITE Middle", Operation::kWrite, Position::kMiddle, kPayload},
    {0x08, "RDMA WRITE Last", Operation::kWrite, Position::kLast, kPayload},
    {0x09, "RDMA WRITE Last with Immediate", Operation::kWrite, Position::kLast, kImm | kPayload},
    {0x0A, "RDMA WRITE Only", Operation::kWrite, Position::kOnly, kReth | kPayload},
    {0x0B, "RDMA WRITE Only with Immediate", Operation::kWrite, Position::kOnly,
     kReth | kImm | kPayload},
};

constexpr Row kRcRows[] = {
    {0x0C, "RDMA READ Request", Operation::kReadRequest, Position::kOnly, kReth},
    {0x0D, "RDMA READ response First", Operation::kReadResponse, Position::kFirst,
     kAeth | kPayload},
    {0x0E, "RDMA READ response Middle", Operation::kReadResponse, Position::kMiddle, kPayload},
    {0x0F, "RDMA READ response Last", Operation::kReadResponse, Position::kLast, kAeth | kPayload},
    {0x10, "RDMA READ response Only", Operation::kReadResponse, Position::kOnly, kAeth | kPayload},
    {0x11, "Acknowledge", Operation::kAcknowledge, Position::kOnly, kAeth},
    {0x12, "ATOMIC Acknowledge", Operation::kAtomicAcknowledge, Position::kOnly,
     kAeth | kAtomicAckEth},
    {0x13, "CmpSwap", Operation::kAtomic, Position::kOnly, kAtomicEth},
    {0x14, "FetchAdd", Operation::kAtomic, Position::kOnly, kAtomicEth},
    {0x16, "SEND Last with Invalidate", Operation::kSend, Position::kLast, kIeth | kPayload},
    {0x17, "SEND Only with Invalidate", Operation::kSend, Position::kOnly, kIeth | kPayload},
};

constexpr Row kUdRows[] = {
    {0x04, "SEND Only", Operation::kSend, Position::kOnly, kDeth | kPayload},
    {0x05, "SEND Only with Immediate", Operation::kSend, Position::kOnly, kDeth | kImm | kPayload},
};

constexpr Row kCnpRow = {0x01, "CNP", Operation::kCnp, Position::kOnly, kNothing};

constexpr void add(Table& table, Transport transport, const Row& row) {
  OpcodeInfo& info = table[static_cast<size_t>(transport) | row.opcode];
  info.name = row.name;
  info.transport = transport;
  info.operation = row.operation;
  info.position = row.position;
  info.has_reth = (row.carries & kReth) != 0;
  info.has_aeth = (row.carries & kAeth) != 0;
  info.has_imm = (row.carries & kImm) != 0;
  info.has_ieth = (row.carries & kIeth) != 0;
  info.has_atomic_eth = (row.carries & kAtomicEth) != 0;
  info.has_atomic_ack_eth = (row.carries & kAtomicAckEth) != 0;
  info.has_deth = (row.carries & kDeth) != 0;
  info.has_payload = (row.carries & kPayload) != 0;

  uint32_t bytes = BthView<Byte>::kBytes;
  if (info.has_deth) bytes += DethView<Byte>::kBytes;
  if (info.has_reth) bytes += RethView<Byte>::kBytes;
  if (info.has_atomic_eth) bytes += AtomicEthView<Byte>::kBytes;
  if (info.has_aeth) bytes += AethView<Byte>::kBytes;
  if (info.has_atomic_ack_eth) bytes += AtomicAckEthView<Byte>::kBytes;
  if (info.has_imm || info.has_ieth) bytes += ImmDtView<Byte>::kBytes;
  if (info.operation == Operation::kCnp) bytes += kCnpReservedBytes;
  info.header_bytes = static_cast<uint8_t>(bytes);
}

constexpr Table make_table() {
  Table table{};
  for (const Row& row : kRequestRows) {
    add(table, Transport::kRc, row);
    add(table, Transport::kUc, row);
  }
  for (const Row& row : kRcRows) add(table, Transport::kRc, row);
  for (const Row& row : kUdRows) add(table, Transport::kUd, row);
  add(table, Transport::kCnp, kCnpRow);
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

const OpcodeInfo& opcode_info(uint8_t opcode) {
  return kTable[opcode];
}

}  // namespace verbena
