// What a peer may not do with a key. IBTA vol. 1 ch. 9.7.4.1, 10.6; rules RC-RSP-12, -23, -28, -35.
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

constexpr uint64_t kBytes = 100;
constexpr uint32_t kAll = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;

// A region of 100 bytes at kInto, and how a request differs from a right one.
struct Deviation {
  const char* name;
  bool read = false;
  int64_t before = 0;  // address - the region's first byte
  uint32_t length = 1;
  uint32_t access = kAll;
  uint32_t key_change = 0;
  bool other_pd = false;
  bool stale = false;
  bool allowed = false;
  uint64_t absolute = 0;  // address, when not 0
};

class AccessErrorsTest : public testing::TestWithParam<Deviation> {};

TEST_P(AccessErrorsTest, IsRefusedOrTaken) {
  const Deviation& d = GetParam();
  Timeline t;
  Device& device = t.station.device;
  const PdId pd = d.other_pd ? *device.alloc_pd(t.station.client) : t.station.pd;
  const uint64_t va = t.station.va(t.kInto);
  MrKeys keys = *device.reg_mr(t.station.client, {pd, d.access, va, kBytes, va});
  if (d.stale) {
    ASSERT_TRUE(device.dereg_mr(t.station.client, keys.handle).ok());
  }
  const uint64_t address = d.absolute != 0 ? d.absolute : va + static_cast<uint64_t>(d.before);
  PacketFields fields{.opcode = d.read ? Opcode::kReadRequest : Opcode::kWriteOnly,
                      .psn = 0,
                      .bytes = d.read ? 0 : std::min(d.length, 1024U),
                      .va = address,
                      .rkey = keys.rkey ^ d.key_change,
                      .dma_length = d.length};
  if (!d.read && d.length > 1024) fields.opcode = Opcode::kWriteFirst;
  t.peer(fields);
  if (d.allowed) {
    t.expect({.psn = 0, .syndrome = 0x1F, .msn = 1});
  } else {
    t.expect({.opcode = Opcode::kAcknowledge, .psn = 0, .syndrome = 0x62, .msn = 0});
    t.expect_event(AsyncEventType::kQpAccessErr);
    EXPECT_EQ(t.state(), QpState::kErr);
    EXPECT_EQ(t.station.memory.accesses(), 0U);
  }
  t.expect_silence();
}

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::vector<Deviation> deviations() {
  std::vector<Deviation> list;
  for (const bool read : {false, true}) {
    const auto add = [&](Deviation d) {
      d.read = read;
      list.push_back(d);
    };
    add({.name = "WholeRegion", .length = kBytes, .allowed = true});
    add({.name = "LastByte", .before = kBytes - 1, .allowed = true});
    add({.name = "OneByteBefore", .before = -1});
    add({.name = "OneByteBehind", .before = kBytes});
    add({.name = "OneByteTooLong", .length = kBytes + 1});
    add({.name = "StraddlesTheEnd", .before = kBytes - 4, .length = 5});
    add({.name = "StraddlesTheBegin", .before = -4, .length = 8});
    add({.name = "LongestLength", .length = 1 << 30});
    add({.name = "AddressWraps",
         .length = 200,
         .absolute = std::numeric_limits<uint64_t>::max() - 50});
    add({.name = "LastAddress", .length = 1, .absolute = std::numeric_limits<uint64_t>::max()});
    add({.name = "FarAhead", .before = kMax / 2});
    add({.name = "UnknownIndex", .key_change = 0x4000});
    add({.name = "HugeIndex", .key_change = 0xFFFFFF00});
    add({.name = "OtherVariant", .key_change = 1});
    add({.name = "Deregistered", .stale = true});
    add({.name = "OtherPd", .other_pd = true});
    add({.name = "LocalOnly", .access = kAccessLocalWrite});
    add({.name = "ReadOnly", .access = kAccessRemoteRead, .allowed = read});
    add({.name = "WriteOnly", .access = kAccessRemoteWrite | kAccessLocalWrite, .allowed = !read});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, AccessErrorsTest, testing::ValuesIn(deviations()),
                         [](const auto& test) {
                           return std::string(test.param.read ? "Read" : "Write") + test.param.name;
                         });

// The queue pair's own flags come first, and are another error (RC-RSP-12).
TEST(AccessErrorsTest, QueuePairWithoutTheFlagIsInvalidRequest) {
  for (const bool read : {false, true}) {
    Timeline t({.connect = {.sq_psn = 0x1000,
                            .rq_psn = 0x5000,
                            .access = read ? kAccessRemoteWrite : kAccessRemoteRead}});
    t.peer({.opcode = read ? Opcode::kReadRequest : Opcode::kWriteOnly,
            .psn = 0,
            .bytes = read ? 0U : 4U,
            .va = t.station.va(0),
            .rkey = t.station.keys.rkey,
            .dma_length = 4});
    t.expect_nak(0, NakCode::kInvalidRequest);
    t.expect_event(AsyncEventType::kQpReqErr);
    t.expect_silence();
  }
}

// The key goes stale in the middle of a message.
TEST(AccessErrorsTest, EachPacketOfAWriteIsChecked) {
  Timeline t;
  Device& device = t.station.device;
  const uint64_t va = t.station.va(t.kInto);
  const MrKeys keys = *device.reg_mr(t.station.client, {t.station.pd, kAll, va, 4096, va});
  t.peer({.opcode = Opcode::kWriteFirst,
          .psn = 0,
          .ack_req = false,
          .bytes = 1024,
          .va = va,
          .rkey = keys.rkey,
          .dma_length = 3000});
  ASSERT_TRUE(device.rereg_mr(t.station.client, keys.handle, 4, {.access = kAll}).ok());
  const uint64_t accesses = t.station.memory.accesses();
  t.peer({.opcode = Opcode::kWriteMiddle, .psn = 1, .bytes = 1024});
  t.expect_nak(1, NakCode::kRemoteAccess);
  t.expect_event(AsyncEventType::kQpAccessErr);
  EXPECT_EQ(t.station.memory.accesses(), accesses);
  t.expect_silence();
}

TEST(AccessErrorsTest, IovaIsTheAddressOnTheWire) {
  Timeline t;
  const MrKeys keys = *t.station.device.reg_mr(
      t.station.client, {t.station.pd, kAll, t.station.va(t.kInto), 64, 0x1000});
  t.peer({.opcode = Opcode::kWriteOnly,
          .psn = 0,
          .bytes = 8,
          .seed = 8,
          .va = 0x1008,
          .rkey = keys.rkey,
          .dma_length = 8});
  t.expect_ack(0, 1);
  EXPECT_TRUE(t.station.memory.holds(t.station.va(t.kInto) + 8, 8, 8));
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
