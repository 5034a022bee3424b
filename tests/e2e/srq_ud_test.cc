// Shared receive queues and unreliable datagrams: every byte of what arrives, the events, and what
// does not arrive.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "tests/e2e/verbs_pair.h"

namespace verbena::e2e {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuiet{50};
constexpr uint32_t kQkey = 0x11223344;
constexpr size_t kGrhBytes = 40;

// ---- Shared receive queues ----

// Receives lie in slices of one buffer; the wr_id is the slice's number.
class SharedReceives {
 public:
  SharedReceives(Rnic& rnic, ibv_pd* pd, uint32_t count, size_t slice_bytes)
      : slice_bytes_(slice_bytes), buffer_(pd, count * slice_bytes) {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = count;
    attr.attr.max_sge = 2;
    srq_.reset(checked(ibv_create_srq(pd, &attr), "ibv_create_srq"));
    EXPECT_GE(attr.attr.max_wr, count);
    EXPECT_EQ(pd->context, rnic.context());
  }

  ibv_srq* get() const { return srq_.get(); }

  int try_post(uint64_t slice) {
    // Two entries, so that messages go over the seam.
    const size_t first = slice_bytes_ / 3;
    ibv_sge sges[2] = {buffer_.sge(slice * slice_bytes_, first),
                       buffer_.sge(slice * slice_bytes_ + first, slice_bytes_ - first)};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = slice;
    wr.sg_list = sges;
    wr.num_sge = 2;
    return ibv_post_srq_recv(srq_.get(), &wr, &bad);
  }
  void post(uint64_t slice) { check(try_post(slice), "ibv_post_srq_recv"); }
  void arm_limit(uint32_t limit) {
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    check(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
  }
  uint32_t armed_limit() {
    ibv_srq_attr attr{};
    check(ibv_query_srq(srq_.get(), &attr), "ibv_query_srq");
    return attr.srq_limit;
  }
  std::span<uint8_t> slice(uint64_t number) {
    return buffer_.bytes().subspan(number * slice_bytes_, slice_bytes_);
  }

 private:
  size_t slice_bytes_;
  Buffer buffer_;
  Owned<ibv_srq> srq_;
};

class SrqTest : public testing::Test {
 protected:
  static constexpr uint32_t kReceives = 24;
  static constexpr size_t kSliceBytes = 20'000;

  Rnic rnic_a_{device_name(0)}, rnic_b_{device_name(1)};
  Owned<ibv_pd> pd_b_{checked(ibv_alloc_pd(rnic_b_.context()), "ibv_alloc_pd")};
  Owned<ibv_cq> cq_b_ = make_cq(rnic_b_.context(), 256);
  SharedReceives receives_{rnic_b_, pd_b_.get(), kReceives, kSliceBytes};

  QpOptions receiver() {
    QpOptions options;
    options.pd = pd_b_.get();
    options.recv_cq = cq_b_.get();
    options.srq = receives_.get();
    return options;
  }
};

uint64_t pattern_of(size_t sender, size_t round) {
  return uint64_t{sender} << 32 | round;
}

TEST_F(SrqTest, SeveralQueuePairsShareOneQueueAndNoByteIsWrong) {
  constexpr size_t kSenders = 4, kRounds = 60;
  std::vector<std::unique_ptr<Endpoint>> senders, receivers;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::map<uint32_t, size_t> sender_of;  // by the receiver's QPN
  for (size_t i = 0; i < kSenders; ++i) {
    senders.push_back(std::make_unique<Endpoint>(rnic_a_));
    receivers.push_back(std::make_unique<Endpoint>(rnic_b_, receiver()));
    connect(*senders[i], *receivers[i]);
    buffers.push_back(std::make_unique<Buffer>(senders[i]->pd(), kSliceBytes));
    sender_of[receivers[i]->qpn()] = i;
  }
  for (uint64_t i = 0; i < kReceives; ++i) receives_.post(i);
  Random random(7);
  std::map<size_t, size_t> received;  // messages so far, by sender
  for (size_t round = 0; round < kRounds; ++round) {
    std::vector<size_t> sizes;
    for (size_t s = 0; s < kSenders; ++s) {
      sizes.push_back(round == 0 ? 0 : random.below(kSliceBytes) + 1);
      fill_pattern(buffers[s]->bytes().first(sizes[s]), pattern_of(s, round));
      post_send(*senders[s], {round,
                              IBV_WR_SEND_WITH_IMM,
                              IBV_SEND_SIGNALED,
                              {buffers[s]->sge(0, sizes[s])},
                              0,
                              0,
                              static_cast<uint32_t>(round)});
    }
    for (size_t n = 0; n < kSenders; ++n) {
      const ibv_wc wc = wait_success(cq_b_.get(), "receive");
      const size_t s = sender_of.at(wc.qp_num);
      ASSERT_EQ(wc.byte_len, sizes[s]);
      ASSERT_EQ(ntohl(wc.imm_data), round);
      const auto slice = receives_.slice(wc.wr_id).first(sizes[s]);
      ASSERT_EQ(first_difference(slice, pattern_of(s, round)), sizes[s]) << "sender " << s;
      ++received[s];
      receives_.post(wc.wr_id);
    }
    for (size_t s = 0; s < kSenders; ++s) wait_success(senders[s]->send_cq(), "send");
  }
  for (size_t s = 0; s < kSenders; ++s) EXPECT_EQ(received[s], kRounds);
}

TEST_F(SrqTest, AnEmptyQueueMakesTheSenderWaitUntilSomethingIsPosted) {
  Endpoint a(rnic_a_), b(rnic_b_, receiver());
  connect(a, b);
  post_send(a, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
  expect_no_completion(a.send_cq(), kQuiet);
  receives_.post(5);
  EXPECT_EQ(wait_success(cq_b_.get(), "receive").wr_id, 5U);
  wait_success(a.send_cq(), "send");
}

TEST_F(SrqTest, TheLimitEventComesOnceWhenFewerRemain) {
  Endpoint a(rnic_a_), b(rnic_b_, receiver());
  connect(a, b);
  for (uint64_t i = 0; i < 5; ++i) receives_.post(i);
  receives_.arm_limit(3);
  EXPECT_EQ(receives_.armed_limit(), 3U);
  const auto send_one = [&] {
    post_send(a, {1, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    wait_success(a.send_cq(), "send");
    wait_success(cq_b_.get(), "receive");
  };
  send_one();
  send_one();
  std::this_thread::sleep_for(kQuiet);
  for (const ibv_async_event& event : drain_async_events(rnic_b_.context())) {
    EXPECT_NE(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED) << "three remain";
  }
  send_one();
  const ibv_async_event event = wait_async_event(rnic_b_.context());
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, receives_.get());
  EXPECT_EQ(receives_.armed_limit(), 0U);
  send_one();
  std::this_thread::sleep_for(kQuiet);
  EXPECT_TRUE(drain_async_events(rnic_b_.context()).empty()) << "it was disarmed";
}

TEST_F(SrqTest, AQueuePairInErrorLeavesTheQueueToTheOthers) {
  Endpoint a(rnic_a_), other_a(rnic_a_), other_b(rnic_b_, receiver());
  Endpoint b(rnic_b_, receiver());
  connect(a, b);
  connect(other_a, other_b);
  for (uint64_t i = 0; i < 2; ++i) receives_.post(i);
  b.to_state(IBV_QPS_ERR);
  const ibv_async_event event = wait_async_event(rnic_b_.context());
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, b.qp());
  expect_no_completion(cq_b_.get(), kQuiet);
  for (uint64_t i = 0; i < 2; ++i) {
    post_send(other_a, {i, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    EXPECT_EQ(wait_success(cq_b_.get(), "receive").wr_id, i);
  }
}

TEST_F(SrqTest, DestroyedQueuePairsLeakNoReceive) {
  ibv_srq_attr attr{};
  check(ibv_query_srq(receives_.get(), &attr), "ibv_query_srq");
  const auto fill = [&] {
    uint32_t posted = 0;
    while (receives_.try_post(0) == 0) ++posted;
    return posted;
  };
  EXPECT_EQ(fill(), attr.max_wr);
  for (int round = 0; round < 5; ++round) {
    Endpoint a(rnic_a_), b(rnic_b_, receiver());
    connect(a, b);
    for (uint64_t i = 0; i < 4; ++i) {
      post_send(a, {i, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
      wait_success(a.send_cq(), "send");
    }
    b.destroy_qp();  // its four completions are never polled
    EXPECT_EQ(fill(), 4U);
  }
}

TEST_F(SrqTest, ThereIsNoReceiveQueueBesideIt) {
  Endpoint a(rnic_a_), b(rnic_b_, receiver());
  connect(a, b);
  EXPECT_EQ(try_post_recv(b, 1, {}), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(receives_.get()), EBUSY);
}

// ---- Unreliable datagrams ----

class UdEndpoint {
 public:
  UdEndpoint(Rnic& rnic, uint32_t qkey, QpOptions options = {}) : end_(rnic, as_ud(options)) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = qkey;
    modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    modify(attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }

  Endpoint& end() { return end_; }
  Owned<ibv_ah> make_ah(const ibv_gid& destination) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = destination;
    attr.grh.hop_limit = 64;
    return Owned<ibv_ah>(checked(ibv_create_ah(end_.pd(), &attr), "ibv_create_ah"));
  }
  void send(ibv_ah* ah, uint32_t qpn, const ibv_sge& sge, uint32_t qkey = kQkey, unsigned flags = 0,
            uint32_t imm = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    ibv_sge list = sge;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = imm != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    wr.imm_data = htonl(imm);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    check(ibv_post_send(end_.qp(), &wr, &bad), "ibv_post_send");
    wait_success(end_.send_cq(), "send of a datagram");
  }

 private:
  static QpOptions as_ud(QpOptions options) {
    options.type = IBV_QPT_UD;
    options.inline_data = 128;
    return options;
  }
  void modify(ibv_qp_attr& attr, int mask) {
    check(ibv_modify_qp(end_.qp(), &attr, mask), "ibv_modify_qp of a UD queue pair");
  }

  Endpoint end_;
};

uint16_t ipv4_sum(const uint8_t* header) {
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

class UdTest : public testing::Test {
 protected:
  static constexpr size_t kRoom = kGrhBytes + 4096;

  Rnic rnic_a_{device_name(0)}, rnic_b_{device_name(1)};
  UdEndpoint a_{rnic_a_, kQkey}, b_{rnic_b_, kQkey};
  Buffer out_{a_.end().pd(), 8192, 5}, in_{b_.end().pd(), kRoom, 3};
  Owned<ibv_ah> to_b_ = a_.make_ah(rnic_b_.gid());

  void SetUp() override {
    Random random(3);
    for (uint8_t& byte : out_.bytes()) byte = static_cast<uint8_t>(random.below(256));
  }
  void post(size_t bytes = kRoom) {
    std::fill(in_.bytes().begin(), in_.bytes().end(), uint8_t{0x66});
    const ibv_sge sge = in_.sge(0, bytes);
    post_recv(b_.end(), 77, {&sge, 1});
  }
  void expect_payload(size_t bytes) {
    EXPECT_EQ(std::memcmp(in_.bytes().data() + kGrhBytes, out_.bytes().data(), bytes), 0);
    for (size_t i = kGrhBytes + bytes; i < kRoom; ++i) ASSERT_EQ(in_.bytes()[i], 0x66) << i;
    EXPECT_TRUE(in_.guards_intact());
  }
};

TEST_F(UdTest, DatagramsOfEverySizeArriveBehindTheHeader) {
  for (const size_t bytes : {0U, 1U, 3U, 255U, 256U, 1024U, 4095U, 4096U}) {
    post();
    a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, bytes));
    const ibv_wc wc = wait_success(b_.end().recv_cq(), "receive");
    EXPECT_EQ(wc.wr_id, 77U);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, kGrhBytes + bytes);
    EXPECT_EQ(wc.src_qp, a_.end().qpn());
    EXPECT_EQ(wc.qp_num, b_.end().qpn());
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH));
    expect_payload(bytes);
  }
}

TEST_F(UdTest, TheHeaderIsZerosAndThenAnIpv4HeaderWithAGoodChecksum) {
  post();
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 100));
  ibv_wc wc = wait_success(b_.end().recv_cq(), "receive");
  const uint8_t* grh = in_.bytes().data();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(grh[i], 0) << i;
  EXPECT_EQ(grh[20], 0x45);
  EXPECT_EQ(ipv4_sum(grh + 20), 0xFFFF);
  EXPECT_EQ(grh[20 + 9], 17) << "UDP";
  EXPECT_EQ(std::memcmp(grh + 32, rnic_a_.gid().raw + 12, 4), 0) << "source";
  EXPECT_EQ(std::memcmp(grh + 36, rnic_b_.gid().raw + 12, 4), 0) << "destination";
  // And libibverbs finds the way back in it.
  Owned<ibv_ah> back(checked(
      ibv_create_ah_from_wc(b_.end().pd(), &wc, reinterpret_cast<ibv_grh*>(in_.bytes().data()), 1),
      "ibv_create_ah_from_wc"));
  Buffer answer(a_.end().pd(), kRoom);
  const ibv_sge sge = answer.sge();
  post_recv(a_.end(), 78, {&sge, 1});
  b_.send(back.get(), wc.src_qp, in_.sge(kGrhBytes, 100));
  EXPECT_EQ(wait_success(a_.end().recv_cq(), "answer").byte_len, kGrhBytes + 100);
  EXPECT_EQ(std::memcmp(answer.bytes().data() + kGrhBytes, out_.bytes().data(), 100), 0);
}

TEST_F(UdTest, ImmediateAndInlineDataArrive) {
  post();
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 64), kQkey, IBV_SEND_INLINE, 0xABCDEF01);
  const ibv_wc wc = wait_success(b_.end().recv_cq(), "receive");
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH | IBV_WC_WITH_IMM));
  EXPECT_EQ(ntohl(wc.imm_data), 0xABCDEF01);
  expect_payload(64);
}

TEST_F(UdTest, AWrongQkeyIsDropped) {
  post();
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 10), kQkey + 1);
  expect_no_completion(b_.end().recv_cq(), kQuiet);
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 10));
  wait_success(b_.end().recv_cq(), "receive");
}

TEST_F(UdTest, TheHighBitOfTheQkeyStandsForTheQueuePairsOwn) {
  post();
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 10), 0x80000000);
  wait_success(b_.end().recv_cq(), "receive");
}

TEST_F(UdTest, WithoutAReceiveADatagramIsDropped) {
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 10));
  std::this_thread::sleep_for(kQuiet);
  post();
  expect_no_completion(b_.end().recv_cq(), kQuiet);
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 20));
  EXPECT_EQ(wait_success(b_.end().recv_cq(), "receive").byte_len, kGrhBytes + 20);
}

TEST_F(UdTest, TooSmallAReceiveEndsInALengthError) {
  post(kGrhBytes + 9);
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 10));
  const ibv_wc wc = wait_completion(b_.end().recv_cq());
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 77U);
  wait_state(b_.end(), IBV_QPS_ERR);
}

TEST_F(UdTest, LongerThanTheMtuIsNotSentAndCompletes) {
  post();
  a_.send(to_b_.get(), b_.end().qpn(), out_.sge(0, 4097));
  expect_no_completion(b_.end().recv_cq(), kQuiet);
}

TEST_F(UdTest, DatagramsComeFromASharedReceiveQueueToo) {
  SharedReceives receives(rnic_b_, b_.end().pd(), 4, 1024);
  QpOptions options;
  options.pd = b_.end().pd();
  options.srq = receives.get();
  UdEndpoint shared(rnic_b_, kQkey, options);
  for (uint64_t i = 0; i < 40; ++i) {
    receives.post(i % 4);
    a_.send(to_b_.get(), shared.end().qpn(), out_.sge(i, 500 + i));
    const ibv_wc wc = wait_success(shared.end().recv_cq(), "receive");
    ASSERT_EQ(wc.wr_id, i % 4);
    ASSERT_EQ(wc.byte_len, kGrhBytes + 500 + i);
    ASSERT_EQ(
        std::memcmp(receives.slice(i % 4).data() + kGrhBytes, out_.bytes().data() + i, 500 + i), 0);
  }
}

TEST_F(UdTest, AddressesThatNobodyHasAreRefused) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = rnic_b_.gid();
  attr.grh.dgid.raw[13] ^= 0x55;
  EXPECT_EQ(ibv_create_ah(a_.end().pd(), &attr), nullptr);
  EXPECT_EQ(errno, EHOSTUNREACH);
  attr.is_global = 0;
  EXPECT_EQ(ibv_create_ah(a_.end().pd(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbena::e2e
