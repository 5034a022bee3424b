// Queue pair states: what each transition needs and what each state does. IBTA vol. 1 ch. 10.3.1,
// 11.2.5.2; facts of sections 4.1 to 4.3. The expectations are written here from the table in the
// specification's form, apart from the engine's.
#include "stack/qp/qp_state.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>

#include "tests/conformance/timeline.h"

namespace verbena::test {
namespace {

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};

// The words of the specification's table.
const std::map<std::string, uint32_t> kWords = {
    {"CUR", 1U << 1},     {"EN_SQD", 1U << 2}, {"ACC", 1U << 3},   {"PKI", 1U << 4},
    {"PORT", 1U << 5},    {"QKEY", 1U << 6},   {"AV", 1U << 7},    {"MTU", 1U << 8},
    {"TIMEOUT", 1U << 9}, {"RETRY", 1U << 10}, {"RNR", 1U << 11},  {"RQ_PSN", 1U << 12},
    {"RDA", 1U << 13},    {"ALT", 1U << 14},   {"RNRT", 1U << 15}, {"SQ_PSN", 1U << 16},
    {"DRA", 1U << 17},    {"PMS", 1U << 18},   {"DEST", 1U << 20}};

uint32_t mask_of(const std::string& words) {
  uint32_t mask = 0;
  size_t at = 0;
  while (at < words.size()) {
    const size_t end = std::min(words.find(' ', at), words.size());
    mask |= kWords.at(words.substr(at, end - at));
    at = end + 1;
  }
  return mask;
}

struct Row {
  const char* required;
  const char* optional;
};
using Key = std::pair<QpState, QpState>;

const std::map<Key, Row> kRc = {
    {{QpState::kReset, QpState::kInit}, {"PKI PORT ACC", ""}},
    {{QpState::kInit, QpState::kInit}, {"", "PKI PORT ACC"}},
    {{QpState::kInit, QpState::kRtr}, {"AV MTU DEST RQ_PSN DRA RNRT", "ALT ACC PKI"}},
    {{QpState::kRtr, QpState::kRts}, {"TIMEOUT RETRY RNR SQ_PSN RDA", "CUR ALT ACC RNRT PMS"}},
    {{QpState::kRts, QpState::kRts}, {"", "CUR ACC ALT PMS RNRT"}},
    {{QpState::kRts, QpState::kSqd}, {"", "EN_SQD"}},
    {{QpState::kSqd, QpState::kSqd},
     {"", "PORT AV TIMEOUT RETRY RNR RDA DRA ALT ACC PKI RNRT PMS"}},
    {{QpState::kSqd, QpState::kRts}, {"", "CUR ALT ACC RNRT PMS"}},
    {{QpState::kSqe, QpState::kRts}, {"", ""}},
};
const std::map<Key, Row> kUc = {
    {{QpState::kReset, QpState::kInit}, {"PKI PORT ACC", ""}},
    {{QpState::kInit, QpState::kInit}, {"", "PKI PORT ACC"}},
    {{QpState::kInit, QpState::kRtr}, {"AV MTU DEST RQ_PSN", "ALT ACC PKI"}},
    {{QpState::kRtr, QpState::kRts}, {"SQ_PSN", "CUR ALT ACC PMS"}},
    {{QpState::kRts, QpState::kRts}, {"", "CUR ACC ALT PMS"}},
    {{QpState::kRts, QpState::kSqd}, {"", "EN_SQD"}},
    {{QpState::kSqd, QpState::kSqd}, {"", "AV ALT ACC PKI PMS"}},
    {{QpState::kSqd, QpState::kRts}, {"", "CUR ALT ACC PMS"}},
    {{QpState::kSqe, QpState::kRts}, {"", "CUR ACC"}},
};
const std::map<Key, Row> kUd = {
    {{QpState::kReset, QpState::kInit}, {"PKI PORT QKEY", ""}},
    {{QpState::kInit, QpState::kInit}, {"", "PKI PORT QKEY"}},
    {{QpState::kInit, QpState::kRtr}, {"", "PKI QKEY"}},
    {{QpState::kRtr, QpState::kRts}, {"SQ_PSN", "CUR QKEY"}},
    {{QpState::kRts, QpState::kRts}, {"", "CUR QKEY"}},
    {{QpState::kRts, QpState::kSqd}, {"", "EN_SQD"}},
    {{QpState::kSqd, QpState::kSqd}, {"", "PKI QKEY"}},
    {{QpState::kSqd, QpState::kRts}, {"", "CUR QKEY"}},
    {{QpState::kSqe, QpState::kRts}, {"", "CUR QKEY"}},
};

bool allowed(const std::map<Key, Row>& table, QpState from, QpState to, uint32_t mask) {
  constexpr uint32_t kState = 1;
  if (to == QpState::kReset) return (mask & ~kState) == 0;
  if (to == QpState::kErr) return from != QpState::kReset && (mask & ~kState) == 0;
  const auto row = table.find({from, to});
  if (row == table.end()) return false;
  const uint32_t required = mask_of(row->second.required);
  const uint32_t optional = mask_of(row->second.optional);
  return (mask & required) == required && (mask & ~(required | optional | kState)) == 0;
}

struct Transport {
  const char* name;
  QpType type;
  const std::map<Key, Row>* table;
};

class QpTableTest : public testing::TestWithParam<Transport> {};

// From the required mask, and from the one with all optional bits: each single bit flipped.
TEST_P(QpTableTest, EveryStatePairAndEverySingleBitDeviation) {
  uint32_t good = 0;
  for (const QpState from : kStates) {
    for (const QpState to : kStates) {
      const auto row = GetParam().table->find({from, to});
      const uint32_t required = row == GetParam().table->end() ? 0 : mask_of(row->second.required);
      const uint32_t optional = row == GetParam().table->end() ? 0 : mask_of(row->second.optional);
      for (const uint32_t base : {required | 1, required | optional | 1}) {
        for (int bit = -1; bit < 32; ++bit) {
          const uint32_t mask = bit < 0 ? base : base ^ (1U << bit);
          const bool want = allowed(*GetParam().table, from, to, mask);
          good += want;
          EXPECT_EQ(check_transition(GetParam().type, from, to, mask).ok(), want)
              << static_cast<int>(from) << " -> " << static_cast<int>(to) << " mask " << mask;
        }
      }
    }
  }
  EXPECT_GT(good, 50U);
}

INSTANTIATE_TEST_SUITE_P(All, QpTableTest,
                         testing::Values(Transport{"Rc", QpType::kRc, &kRc},
                                         Transport{"Uc", QpType::kUc, &kUc},
                                         Transport{"Ud", QpType::kUd, &kUd}),
                         [](const auto& test) { return test.param.name; });

// A device's own queue pair, moved to each state, then asked for each transition.
TEST(QpStatesTest, DeviceRefusesWhatTheTableRefusesAndChangesNothing) {
  for (const QpState from : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts}) {
    for (const QpState to : kStates) {
      Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = from});
      const bool want = allowed(kRc, from, to, 1);
      EXPECT_EQ(t.modify(to).error(), want ? 0 : EINVAL);
      EXPECT_EQ(t.state(), want ? to : from);
    }
  }
}

struct BadValue {
  const char* name;
  void (*change)(Step& init, Step& rtr, Step& rts);
};

class QpValueTest : public testing::TestWithParam<BadValue> {};

TEST_P(QpValueTest, IsRefused) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = QpState::kReset});
  const Gid gid = small_config(2).gids[0];
  Step steps[] = {init_step(t.connect), rtr_step(gid, 7, t.connect), rts_step(t.connect)};
  GetParam().change(steps[0], steps[1], steps[2]);
  int refused = 0;
  for (const Step& step : steps) {
    const Status status = t.station.modify(t.qp, step.attr, step.mask, t.fabric.now);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.error(), EINVAL);
    break;
  }
  EXPECT_EQ(refused, 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, QpValueTest,
    testing::Values(
        BadValue{"Port0", [](Step& i, Step&, Step&) { i.attr.port_num = 0; }},
        BadValue{"Port2", [](Step& i, Step&, Step&) { i.attr.port_num = 2; }},
        BadValue{"Pkey", [](Step& i, Step&, Step&) { i.attr.pkey_index = 1; }},
        BadValue{"Access", [](Step& i, Step&, Step&) { i.attr.qp_access_flags = 0x100; }},
        BadValue{"Mtu0", [](Step&, Step& r, Step&) { r.attr.path_mtu = 0; }},
        BadValue{"Mtu6", [](Step&, Step& r, Step&) { r.attr.path_mtu = 6; }},
        BadValue{"DestQpn0", [](Step&, Step& r, Step&) { r.attr.dest_qp_num = 0; }},
        BadValue{"DestQpnLarge", [](Step&, Step& r, Step&) { r.attr.dest_qp_num = 1 << 24; }},
        BadValue{"DestRd", [](Step&, Step& r, Step&) { r.attr.max_dest_rd_atomic = 17; }},
        BadValue{"RnrTimer", [](Step&, Step& r, Step&) { r.attr.min_rnr_timer = 32; }},
        BadValue{"NotGlobal", [](Step&, Step& r, Step&) { r.attr.ah_is_global = 0; }},
        BadValue{"GidIndex", [](Step&, Step& r, Step&) { r.attr.ah_sgid_index = 1; }},
        BadValue{"ZeroGid",
                 [](Step&, Step& r, Step&) { std::fill_n(r.attr.ah_dgid, 16, uint8_t{0}); }},
        BadValue{"Ipv6Gid", [](Step&, Step& r, Step&) { r.attr.ah_dgid[0] = 0x20; }},
        BadValue{"Timeout", [](Step&, Step&, Step& s) { s.attr.timeout = 32; }},
        BadValue{"RetryCnt", [](Step&, Step&, Step& s) { s.attr.retry_cnt = 8; }},
        BadValue{"RnrRetry", [](Step&, Step&, Step& s) { s.attr.rnr_retry = 8; }},
        BadValue{"Rd", [](Step&, Step&, Step& s) { s.attr.max_rd_atomic = 17; }}),
    [](const auto& test) { return test.param.name; });

TEST(QpStatesTest, UnknownNeighborIsUnreachable) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = QpState::kInit});
  const Step step = rtr_step(Gid::from_ipv4(0x0A0000FE), 7, t.connect);
  EXPECT_EQ(t.station.modify(t.qp, step.attr, step.mask, 0).error(), EHOSTUNREACH);
  EXPECT_EQ(t.state(), QpState::kInit);
}

TEST(QpStatesTest, RequestsAreDroppedBeforeRtr) {
  for (const QpState state : {QpState::kReset, QpState::kInit}) {
    Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = state});
    t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 1});
    t.peer({.opcode = Opcode::kAcknowledge, .psn = 0});
    EXPECT_EQ(t.dropped(DropReason::kQpState), 2U);
    t.expect_silence();
  }
}

TEST(QpStatesTest, SendsWaitForRts) {
  Timeline t({.connect = {.sq_psn = 0x1000, .rq_psn = 0x5000}, .until = QpState::kRtr});
  t.post_send(1);
  t.expect_silence();
  const Step step = rts_step(t.connect);
  ASSERT_TRUE(t.station.modify(t.qp, step.attr, step.mask, t.fabric.now).ok());
  t.settle();
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0});
  t.expect_silence();
}

TEST(QpStatesTest, SqdFinishesWhatIsStartedAndReportsOnce) {
  TimelineOptions options;
  options.window_packets = 1;
  Timeline t(options);
  t.post_send(2048);
  t.post_send(1);
  t.expect({.opcode = Opcode::kSendFirst, .psn = 0});
  ASSERT_TRUE(t.modify(QpState::kSqd, kAttrEnSqdAsyncNotify, {.en_sqd_async_notify = 1}).ok());
  EXPECT_EQ(t.station.device.query_qp(t.station.client, t.qp.qpn())->sq_draining, 1U);
  EXPECT_EQ(t.modify(QpState::kRts).error(), EINVAL);  // not drained
  t.ack(0);
  t.expect({.opcode = Opcode::kSendLast, .psn = 1});
  t.expect_silence();
  t.ack(1);
  t.expect_wc(0);
  t.expect_event(AsyncEventType::kSqDrained);
  EXPECT_EQ(t.station.device.query_qp(t.station.client, t.qp.qpn())->sq_draining, 0U);
  t.post_send(1);
  t.expect_silence();
  ASSERT_TRUE(t.modify(QpState::kRts).ok());
  t.expect({.opcode = Opcode::kSendOnly, .psn = 2});
  t.ack(2);
  t.expect_wc(1);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 3});
  t.expect_silence();
}

TEST(QpStatesTest, IdleSqdIsDrainedAtOnceAndSilentUnlessAsked) {
  Timeline t;
  ASSERT_TRUE(t.modify(QpState::kSqd, kAttrEnSqdAsyncNotify, {.en_sqd_async_notify = 1}).ok());
  t.expect_event(AsyncEventType::kSqDrained);
  ASSERT_TRUE(t.modify(QpState::kRts).ok());
  ASSERT_TRUE(t.modify(QpState::kSqd).ok());
  t.expect_silence();
}

TEST(QpStatesTest, SqdStillAnswers) {
  Timeline t;
  t.post_recv(8);
  ASSERT_TRUE(t.modify(QpState::kSqd).ok());
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 8});
  t.expect_ack(0, 1);
  t.expect_recv(0, 8);
  t.expect_silence();
}

// Send queue and receive queue are flushed each in order, and what comes later too (QP-ERR-2, -3).
TEST(QpStatesTest, ErrFlushesEverythingInOrder) {
  Timeline t;
  for (int i = 0; i < 3; ++i) t.post_recv(2048);
  t.peer({.opcode = Opcode::kSendFirst, .psn = 0, .ack_req = false, .bytes = 1024});
  t.post_send(1, 0);
  t.post_read(1);
  t.expect({.psn = 0});
  t.expect({.psn = 1});
  ASSERT_TRUE(t.modify(QpState::kErr).ok());
  for (uint32_t i = 0; i < 2; ++i) {
    t.expect_wc_error(i, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    t.expect_wc_error(i, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  }
  EXPECT_EQ(t.qp.header().flushing.load(), 1U);
  t.post_send(1);
  t.expect_wc_error(2, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed);
  t.post_recv(1);
  t.expect_wc_error(3, abi::WcStatus::kWrFlush, abi::VendorErr::kFlushed, true);
  t.peer({.opcode = Opcode::kSendLast, .psn = 1, .bytes = 4});
  t.ack(0);
  EXPECT_EQ(t.dropped(DropReason::kQpState), 2U);
  t.pass(1'000'000'000);
  EXPECT_EQ(t.station.device.next_timeout(), kNever);
  t.expect_silence();
}

TEST(QpStatesTest, ResetForgetsAllAndTheQueuePairWorksAgain) {
  Timeline t;
  t.post_recv(64);
  t.post_send(5000);
  t.post_read(5000);
  for (uint32_t i = 0; i < 6; ++i) t.expect({.psn = i});
  t.peer({.opcode = Opcode::kReadRequest,
          .psn = 0,
          .va = t.station.va(0),
          .rkey = t.station.keys.rkey,
          .dma_length = 4});
  t.expect({.opcode = Opcode::kReadResponseOnly});
  ASSERT_TRUE(t.modify(QpState::kReset).ok());
  EXPECT_EQ(t.qp.header().sq_tail.load(), 0U);
  t.qp.reset();
  t.pass(10'000'000'000);
  t.expect_silence();
  t.station.connect(t.qp, small_config(2).gids[0], t.kPeerQpn, t.connect, t.fabric.now);
  t.post_recv(64);
  t.peer({.opcode = Opcode::kSendOnly, .psn = 0, .bytes = 4});
  t.expect_ack(0, 1);
  t.expect_recv(0, 4);
  t.post_send(1);
  t.expect({.opcode = Opcode::kSendOnly, .psn = 0});
  t.ack(0);
  t.expect_wc(0);
  t.expect_silence();
}

}  // namespace
}  // namespace verbena::test
