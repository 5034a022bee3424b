// The opcode table against a list written from the specification's own table (IBTA vol. 1 ch. 9.2).
#include "stack/wire/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace verbena {
namespace {

struct Expected {
  Transport transport;
  Operation operation;
  Position position;
  std::string headers;  // after the BTH, in order; "P" last: carries payload
  int header_bytes;
};

const std::map<int, Expected>& expected_table() {
  using enum Operation;
  using enum Position;
  constexpr Transport rc = Transport::kRc;
  constexpr Transport uc = Transport::kUc;
  constexpr Transport ud = Transport::kUd;
  static const std::map<int, Expected> table = {
      {0x00, {rc, kSend, kFirst, "P", 12}},
      {0x01, {rc, kSend, kMiddle, "P", 12}},
      {0x02, {rc, kSend, kLast, "P", 12}},
      {0x03, {rc, kSend, kLast, "ImmDt P", 16}},
      {0x04, {rc, kSend, kOnly, "P", 12}},
      {0x05, {rc, kSend, kOnly, "ImmDt P", 16}},
      {0x06, {rc, kWrite, kFirst, "RETH P", 28}},
      {0x07, {rc, kWrite, kMiddle, "P", 12}},
      {0x08, {rc, kWrite, kLast, "P", 12}},
      {0x09, {rc, kWrite, kLast, "ImmDt P", 16}},
      {0x0A, {rc, kWrite, kOnly, "RETH P", 28}},
      {0x0B, {rc, kWrite, kOnly, "RETH ImmDt P", 32}},
      {0x0C, {rc, kReadRequest, kOnly, "RETH", 28}},
      {0x0D, {rc, kReadResponse, kFirst, "AETH P", 16}},
      {0x0E, {rc, kReadResponse, kMiddle, "P", 12}},
      {0x0F, {rc, kReadResponse, kLast, "AETH P", 16}},
      {0x10, {rc, kReadResponse, kOnly, "AETH P", 16}},
      {0x11, {rc, kAcknowledge, kOnly, "AETH", 16}},
      {0x12, {rc, kAtomicAcknowledge, kOnly, "AETH AtomicAckETH", 24}},
      {0x13, {rc, kAtomic, kOnly, "AtomicETH", 40}},
      {0x14, {rc, kAtomic, kOnly, "AtomicETH", 40}},
      {0x16, {rc, kSend, kLast, "IETH P", 16}},
      {0x17, {rc, kSend, kOnly, "IETH P", 16}},
      {0x20, {uc, kSend, kFirst, "P", 12}},
      {0x21, {uc, kSend, kMiddle, "P", 12}},
      {0x22, {uc, kSend, kLast, "P", 12}},
      {0x23, {uc, kSend, kLast, "ImmDt P", 16}},
      {0x24, {uc, kSend, kOnly, "P", 12}},
      {0x25, {uc, kSend, kOnly, "ImmDt P", 16}},
      {0x26, {uc, kWrite, kFirst, "RETH P", 28}},
      {0x27, {uc, kWrite, kMiddle, "P", 12}},
      {0x28, {uc, kWrite, kLast, "P", 12}},
      {0x29, {uc, kWrite, kLast, "ImmDt P", 16}},
      {0x2A, {uc, kWrite, kOnly, "RETH P", 28}},
      {0x2B, {uc, kWrite, kOnly, "RETH ImmDt P", 32}},
      {0x64, {ud, kSend, kOnly, "DETH P", 20}},
      {0x65, {ud, kSend, kOnly, "DETH ImmDt P", 24}},
      {0x81, {Transport::kCnp, kCnp, kOnly, "", 28}},
  };
  return table;
}

std::string headers_of(const OpcodeInfo& info) {
  std::string text;
  const auto add = [&text](bool present, const char* name) {
    if (!present) return;
    if (!text.empty()) text += ' ';
    text += name;
  };
  add(info.has_deth, "DETH");
  add(info.has_reth, "RETH");
  add(info.has_atomic_eth, "AtomicETH");
  add(info.has_aeth, "AETH");
  add(info.has_atomic_ack_eth, "AtomicAckETH");
  add(info.has_imm, "ImmDt");
  add(info.has_ieth, "IETH");
  add(info.has_payload, "P");
  return text;
}

TEST(OpcodeTable, All256ValuesAreAsSpecified) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const auto row = expected_table().find(opcode);
    SCOPED_TRACE(opcode);
    ASSERT_EQ(info.known(), row != expected_table().end());
    if (!info.known()) continue;
    EXPECT_EQ(info.transport, row->second.transport);
    EXPECT_EQ(info.operation, row->second.operation);
    EXPECT_EQ(info.position, row->second.position);
    EXPECT_EQ(headers_of(info), row->second.headers);
    EXPECT_EQ(info.header_bytes, row->second.header_bytes);
  }
}

TEST(OpcodeTable, NamesAreThoseOfTshark) {
  EXPECT_EQ(opcode_info(Opcode::kSendFirst).name, "SEND First");
  EXPECT_EQ(opcode_info(Opcode::kWriteLastImm).name, "RDMA WRITE Last with Immediate");
  EXPECT_EQ(opcode_info(Opcode::kReadResponseMiddle).name, "RDMA READ response Middle");
  EXPECT_EQ(opcode_info(Opcode::kCompareSwap).name, "CmpSwap");
  EXPECT_EQ(opcode_info(0x24).name, "SEND Only");
}

TEST(OpcodeTable, ReservedAndForeignOpcodesAreUnknown) {
  for (const int opcode :
       {0x15, 0x18, 0x1F, 0x2C, 0x36, 0x40, 0x60, 0x66, 0x80, 0x82, 0xA0, 0xFF}) {
    EXPECT_FALSE(opcode_info(static_cast<uint8_t>(opcode)).known()) << opcode;
  }
}

TEST(OpcodeTable, PositionSaysWhereMessagesStartAndEnd) {
  EXPECT_TRUE(opcode_info(Opcode::kSendFirst).starts_message());
  EXPECT_FALSE(opcode_info(Opcode::kSendFirst).ends_message());
  EXPECT_FALSE(opcode_info(Opcode::kWriteMiddle).starts_message());
  EXPECT_FALSE(opcode_info(Opcode::kWriteMiddle).ends_message());
  EXPECT_TRUE(opcode_info(Opcode::kSendLastInv).ends_message());
  EXPECT_TRUE(opcode_info(Opcode::kReadRequest).starts_message());
  EXPECT_TRUE(opcode_info(Opcode::kReadRequest).ends_message());
}

TEST(OpcodeTable, ResponsesAreTheSixThatAResponderSends) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const bool response = opcode >= 0x0D && opcode <= 0x12;
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    EXPECT_EQ(info.known() && info.is_response(), response) << opcode;
  }
}

}  // namespace
}  // namespace verbena
