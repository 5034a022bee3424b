// Many queue pairs on one device: budgets, fairness, destruction at any time, and a data path that
// does not allocate.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>

#include "tests/support/packet_builder.h"
#include "tests/support/pair.h"

namespace {

uint64_t allocations = 0;

}  // namespace

// Counts, otherwise as the library's. (The sanitizers see malloc and free.)
// Not inlined: gcc would see free() meet memory of operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace verbena::test {
namespace {

constexpr uint32_t kQps = 40;

// Frames in one buffer; the peer's side is not played.
class CountingSink : public TxSink {
 public:
  bool allocate(uint32_t bytes, TxFrame& frame) override {
    if (left == 0 || bytes > sizeof frames_[0]) return false;
    --left;
    frame.data = frames_[next_++ % kFrames];
    return true;
  }
  void commit(const TxFrame& frame, uint32_t bytes) override {
    ++sent;
    last_bytes = bytes;
    last = frame.data;
  }
  void release(const TxFrame&) override { ++left; }

  uint32_t left = UINT32_MAX;
  uint32_t sent = 0;
  uint32_t last_bytes = 0;
  uint8_t* last = nullptr;

 private:
  static constexpr uint32_t kFrames = 64;
  uint8_t frames_[kFrames][kMaxFrameBytes];
  uint32_t next_ = 0;
};

struct ManyQps {
  ManyQps() : a(fabric.add(small_config(1))), b(fabric.add(small_config(2))) {
    for (uint32_t i = 0; i < kQps; ++i) {
      from.push_back(&a.add_qp());
      to.push_back(&b.add_qp());
      a.connect(*from[i], b.device.config().gids[0], to[i]->qpn(), {}, fabric.now);
      b.connect(*to[i], a.device.config().gids[0], from[i]->qpn(), {}, fabric.now);
    }
  }
  void write(uint32_t i, uint32_t bytes) {
    from[i]->post_send({.opcode = abi::WrOpcode::kWrite,
                        .sges = {a.sge(0, bytes)},
                        .rkey = b.keys.rkey,
                        .remote_va = b.va(0)});
    from[i]->ring(fabric.now);
  }
  Fabric fabric;
  Station& a;
  Station& b;
  std::vector<ClientQp*> from, to;
};

TEST(SchedulingTest, PollKeepsToItsBudget) {
  ManyQps m;
  for (uint32_t i = 0; i < kQps; ++i) m.write(i, 200 * 1024);
  CountingSink sink;
  for (uint32_t budget : {1U, 7U, 32U, 100U}) {
    const uint32_t before = sink.sent;
    EXPECT_EQ(m.a.device.poll(m.fabric.now, sink, budget), budget);
    EXPECT_EQ(sink.sent - before, budget);
  }
}

// Each gets its quantum before any gets another.
TEST(SchedulingTest, TurnsGoRound) {
  ManyQps m;
  for (uint32_t i = 0; i < kQps; ++i) m.write(i, 200 * 1024);
  const uint32_t quantum = m.a.device.config().quantum_packets;
  std::map<Qpn, uint32_t> count;
  m.fabric.poll_budget = quantum * kQps * 2;
  m.fabric.filter = [&](const wire::ParsedPacket& packet) {
    ++count[packet.dest_qpn];
    return Fate{.drop = true};
  };
  m.fabric.step();
  ASSERT_EQ(count.size(), kQps);
  for (const auto& [qpn, packets] : count) EXPECT_EQ(packets, 2 * quantum) << qpn;
}

// A queue pair whose memory is not ready does not hold up the others.
TEST(SchedulingTest, UnreadyMemoryStallsOneQueuePairOnly) {
  ManyQps m;
  m.a.memory.answer_next(MemResult::kLater, 1, FakeMemory::Access::kRead);
  for (uint32_t i = 0; i < kQps; ++i) m.write(i, 8);
  CountingSink sink;
  EXPECT_EQ(m.a.device.poll(m.fabric.now, sink, 1000), kQps - 1);
  EXPECT_EQ(m.a.device.poll(m.fabric.now, sink, 1000), 1U);
}

TEST(SchedulingTest, UnreadyMemoryEverywhereEndsThePoll) {
  ManyQps m;
  m.a.memory.answer_next(MemResult::kLater, 1'000'000, FakeMemory::Access::kRead);
  for (uint32_t i = 0; i < kQps; ++i) m.write(i, 8);
  CountingSink sink;
  EXPECT_EQ(m.a.device.poll(m.fabric.now, sink, 1000), 0U);
  EXPECT_TRUE(m.a.device.has_work());
  EXPECT_LE(m.a.memory.accesses(), 2 * kQps);
}

TEST(SchedulingTest, DestroyAtAnyTime) {
  ManyQps m;
  for (uint32_t i = 0; i < kQps; ++i) {
    m.to[i]->post_recv({});
    m.write(i, 10 * 1024);
    m.from[i]->post_send({.opcode = abi::WrOpcode::kRead,
                          .sges = {m.a.sge(0, 5000)},
                          .rkey = m.b.keys.rkey,
                          .remote_va = m.b.va(0)});
  }
  m.fabric.poll_budget = 20;
  for (uint32_t i = 0; i < kQps; i += 2) {
    m.fabric.step();
    ASSERT_TRUE(m.a.device.destroy_qp(m.a.client, m.from[i]->qpn()).ok());
    ASSERT_TRUE(m.b.device.destroy_qp(m.b.client, m.to[i + 1]->qpn()).ok());
    EXPECT_EQ(m.a.device.destroy_qp(m.a.client, m.from[i]->qpn()).error(), EINVAL);
    m.from[i]->ring(m.fabric.now);
  }
  m.fabric.step();
  m.b.device.detach_client(m.b.client);
  m.fabric.drive();
  EXPECT_EQ(m.b.device.usage(m.b.client).qps, 0U);
  EXPECT_EQ(m.a.device.usage(m.a.client).qps, kQps / 2);
  for (const Wc& wc : m.a.cq->poll_all()) {
    EXPECT_TRUE(wc.status == abi::WcStatus::kSuccess || wc.status == abi::WcStatus::kRetryExc ||
                wc.status == abi::WcStatus::kWrFlush);
  }
  m.a.device.detach_client(m.a.client);
  m.fabric.drive();
}

TEST(SchedulingTest, DataPathDoesNotAllocate) {
  ManyQps m;
  CountingSink sink;
  wire::Path path;
  path.source_mac = m.b.device.config().mac;
  path.dest_mac = m.a.device.config().mac;
  path.source_gid = m.b.device.config().gids[0];
  path.dest_gid = m.a.device.config().gids[0];
  for (uint32_t i = 0; i < kQps; ++i) {
    m.from[i]->post_recv(std::vector{m.a.sge(0, 64)});
    m.write(i, 100 * 1024);
  }
  // An ACK, a WRITE, a READ, a SEND, a SEND that is not ready, a gap, and an access error.
  std::vector<std::vector<uint8_t>> frames;
  const Key rkey = m.a.keys.rkey;
  for (const ClientQp* qp : m.from) {
    const auto add = [&](const PacketFields& fields) {
      frames.push_back(build_packet(path, qp->qpn(), fields));
    };
    add({.opcode = Opcode::kAcknowledge, .psn = 3});
    add({.opcode = Opcode::kWriteOnly,
         .psn = 0,
         .bytes = 8,
         .va = m.a.va(0),
         .rkey = rkey,
         .dma_length = 8});
    add({.opcode = Opcode::kReadRequest,
         .psn = 1,
         .va = m.a.va(0),
         .rkey = rkey,
         .dma_length = 5000});
    add({.opcode = Opcode::kSendOnly, .psn = 6, .bytes = 8});
    add({.opcode = Opcode::kSendOnly, .psn = 7, .bytes = 8});
    add({.opcode = Opcode::kSendOnly, .psn = 9, .bytes = 8});
    add({.opcode = Opcode::kWriteOnly,
         .psn = 7,
         .bytes = 8,
         .va = 0,
         .rkey = rkey,
         .dma_length = 8});
  }
  std::vector<RxFrame> burst;
  for (const auto& frame : frames) {
    burst.push_back({frame.data(), static_cast<uint32_t>(frame.size())});
  }
  const uint64_t before = allocations;
  while (m.a.device.poll(m.fabric.now, sink, 64) == 64) {
  }
  m.a.device.on_burst(burst, m.fabric.now, sink);
  while (m.a.device.poll(m.fabric.now, sink, 64) == 64) {
  }
  m.a.device.on_timeout(m.fabric.now + 1'000'000'000);
  for (uint32_t slot = 0; slot < kQps; ++slot) m.a.device.doorbell(m.a.client, slot, m.fabric.now);
  while (m.a.device.poll_event()) {
  }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(sink.sent, kQps * 100);
  EXPECT_EQ(m.a.state(*m.from[0]), QpState::kErr);
}

}  // namespace
}  // namespace verbena::test
