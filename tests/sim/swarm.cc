#include "tests/sim/swarm.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "stack/wire/describe.h"
#include "tests/sim/model.h"
#include "tools/sim/fabric.h"
#include "tools/sim/random.h"

namespace verbena::sim {
namespace {

constexpr size_t kMemoryBytes = 4 << 20;
constexpr Timestamp kLongestRun = 120'000'000'000;  // two virtual minutes

// What kind of world a seed makes.
struct World {
  uint32_t drop = 0;  // per mille of packets
  uint32_t duplicate = 0;
  uint32_t corrupt = 0;
  uint32_t reorder = 0;
  uint32_t base_delay = 0;  // ns
  uint32_t jitter = 0;
  uint32_t memory_later = 0;  // per mille of steps
  uint32_t sink_capacity = UINT32_MAX;
  bool late_receives = false;
  bool bad_key = false;
  bool cut = false;  // a queue pair is destroyed or moved to ERR in the middle

  bool lossy() const { return drop + corrupt + duplicate + reorder != 0; }
};

World make_world(Random& random) {
  World world;
  if (random.chance(650)) {
    if (random.chance(700)) world.drop = random.between(1, 30);
    if (random.chance(400)) world.duplicate = random.between(1, 50);
    if (random.chance(300)) world.corrupt = random.between(1, 15);
    if (random.chance(500)) world.reorder = random.between(1, 30);
  }
  if (random.chance(600)) world.base_delay = random.between(100, 20'000);
  if (random.chance(300)) world.jitter = random.between(1, 10'000);
  if (random.chance(250)) world.memory_later = random.between(1, 100);
  if (random.chance(300)) world.sink_capacity = random.between(1, 12);
  world.late_receives = random.chance(400);
  world.bad_key = random.chance(200);
  world.cut = random.chance(150);
  return world;
}

class Swarm {
 public:
  Swarm(uint64_t seed, bool trace) : random_(seed), world_(make_world(random_)), trace_(trace) {
    fabric_.on_fault = [this](const std::string& what) { fail(what); };
    fabric_.record = false;
    fabric_.sink_capacity = world_.sink_capacity;
    fabric_.poll_budget = random_.between(1, 80);
    fabric_.filter = [this](const wire::ParsedPacket& packet) { return fate(packet); };
    make_stations();
    const uint32_t connections = random_.between(1, 5);
    for (uint32_t i = 0; i < connections; ++i) make_connection();
    images_.resize(fabric_.size());
    for (size_t i = 0; i < fabric_.size(); ++i) {
      const auto bytes = fabric_.station(i).memory.range(fabric_.station(i).va(0), kMemoryBytes);
      images_[i].assign(bytes.begin(), bytes.end());
    }
  }

  SwarmResult run() {
    result_.world = describe();
    const Timestamp limit = fabric_.now + kLongestRun;
    while (result_.failure.empty() && !all_done()) {
      act();
      const bool stepped = fabric_.step();
      take_completions();
      if (stepped) continue;
      if (fabric_.now > limit) fail("not done after two minutes");
      advance();
    }
    if (result_.failure.empty()) finish();
    for (size_t i = 0; i < fabric_.size(); ++i) {
      result_.resent += fabric_.station(i).device.stats().retransmitted_pkts;
    }
    return result_;
  }

 private:
  void fail(const std::string& what) {
    if (result_.failure.empty()) result_.failure = what;
  }

  std::string describe() const {
    std::string text;
    const auto add = [&text](const char* name, uint32_t value) {
      if (value != 0)
        text += std::string(text.empty() ? "" : " ") + name + "=" + std::to_string(value);
    };
    add("drop", world_.drop);
    add("duplicate", world_.duplicate);
    add("corrupt", world_.corrupt);
    add("reorder", world_.reorder);
    add("delay", world_.base_delay);
    add("jitter", world_.jitter);
    add("later", world_.memory_later);
    add("sink", world_.sink_capacity == UINT32_MAX ? 0 : world_.sink_capacity);
    add("late_receives", world_.late_receives);
    add("bad_key", world_.bad_key);
    add("cut", world_.cut);
    return text;
  }

  Fate fate(const wire::ParsedPacket& packet) {
    ++result_.packets;
    for (const uint64_t value : {uint64_t{packet.opcode}, uint64_t{packet.psn.value()},
                                 uint64_t{packet.dest_qpn}, uint64_t{fabric_.now}}) {
      result_.trace_hash = (result_.trace_hash ^ value) * 0x100000001B3;
    }
    Fate fate;
    fate.delay = world_.base_delay;
    if (world_.jitter != 0 && random_.chance(100)) fate.delay += random_.between(0, world_.jitter);
    if (random_.chance(world_.reorder)) fate.delay += random_.between(1, 100'000);
    fate.drop = random_.chance(world_.drop);
    fate.corrupt = random_.chance(world_.corrupt);
    if (random_.chance(world_.duplicate)) fate.copies = 2;
    if (trace_) {
      std::printf("%llu %s%s%s%s\n", static_cast<unsigned long long>(fabric_.now),
                  wire::describe(packet).c_str(), fate.drop ? " dropped" : "",
                  fate.corrupt ? " corrupted" : "", fate.copies == 2 ? " twice" : "");
    }
    return fate;
  }

  void make_stations() {
    const uint8_t count = static_cast<uint8_t>(random_.between(1, 3));
    for (uint8_t i = 1; i <= count; ++i) {
      DeviceConfig config = small_config(i);
      const uint32_t windows[] = {1, 2, 7, 32, 512};
      // Going back costs a window each time: with losses, small ones keep the run short.
      config.window_packets = windows[random_.between(0, world_.lossy() ? 3 : 4)];
      config.ack_every_packets = random_.between(1, 40);
      config.quantum_packets = random_.between(1, 20);
      fabric_.add(config, kMemoryBytes);
      next_offset_.push_back(64);
    }
  }

  // A slice of a station's memory that nothing else uses, with a gap behind it.
  uint64_t slice(Station& station, uint32_t bytes) {
    for (size_t i = 0; i < fabric_.size(); ++i) {
      if (&fabric_.station(i) != &station) continue;
      const uint64_t at = next_offset_[i];
      if (at + bytes + 64 > kMemoryBytes) return UINT64_MAX;
      next_offset_[i] += bytes + random_.between(1, 20);
      return at;
    }
    return UINT64_MAX;
  }

  uint32_t random_bytes(uint32_t mtu) {
    switch (random_.between(0, 5)) {
      case 0:
        return random_.between(0, 16);
      case 1:
        return mtu * random_.between(0, 4) + random_.between(0, 2);
      case 2:
        return random_.between(1, mtu);
      case 3:
        return random_.chance(200) ? random_.between(1, 60'000) : random_.between(1, 3 * mtu);
      default:
        return random_.between(1, 5 * mtu);
    }
  }

  void make_connection() {
    ConnectOptions options;
    options.mtu = static_cast<PathMtu>(random_.chance(500) ? 1 : random_.between(1, 5));
    options.sq_psn = random_.chance(300) ? 0xFFFFF0 : random_.between(0, 0xFFFFFF);
    options.rq_psn = random_.chance(300) ? 0xFFFFFA : random_.between(0, 0xFFFFFF);
    options.timeout = random_.between(9, 11);  // 2 to 8 ms
    options.max_rd_atomic = random_.chance(300) ? 1 : random_.between(1, 16);
    options.max_dest_rd_atomic = options.max_rd_atomic;
    options.min_rnr_timer = random_.between(1, 12);
    ends_.push_back(std::make_unique<End>());
    ends_.push_back(std::make_unique<End>());
    End* pair[2] = {ends_[ends_.size() - 2].get(), ends_.back().get()};
    for (End* end : pair) {
      end->station =
          &fabric_.station(random_.between(0, static_cast<uint32_t>(fabric_.size()) - 1));
      end->cq = &end->station->add_cq(512);
      end->qp = &end->station->add_qp({}, end->cq);
    }
    pair[0]->peer = pair[1];
    pair[1]->peer = pair[0];
    const auto gid = [](End* end) { return end->station->device.config().gids[0]; };
    pair[0]->station->connect(*pair[0]->qp, gid(pair[1]), pair[1]->qp->qpn(), options, fabric_.now);
    std::swap(options.sq_psn, options.rq_psn);
    pair[1]->station->connect(*pair[1]->qp, gid(pair[0]), pair[0]->qp->qpn(), options, fabric_.now);
    plan(*pair[0], mtu_bytes(options.mtu));
    if (random_.chance(600)) plan(*pair[1], mtu_bytes(options.mtu));
  }

  void plan(End& end, uint32_t mtu) {
    const uint32_t count = random_.between(1, 40);
    const uint32_t reads = random_.between(0, 600);
    for (uint32_t i = 0; i < count; ++i) {
      Operation op = random_operation(mtu, reads);
      op.local = slice(*end.station, op.bytes);
      op.remote = op.is_read() || op.is_write() ? slice(*end.peer->station, op.bytes) : 0;
      Receive recv;
      recv.bytes = op.is_write() ? 0 : op.bytes + random_.between(0, 100);
      if (op.consumes_recv()) recv.local = slice(*end.peer->station, recv.bytes);
      if (op.local == UINT64_MAX || op.remote == UINT64_MAX || recv.local == UINT64_MAX) break;
      Station& source = op.is_read() ? *end.peer->station : *end.station;
      source.memory.fill(source.va(op.is_read() ? op.remote : op.local), op.bytes, op.seed);
      end.planned.push_back(op);
      if (!op.consumes_recv()) continue;
      end.peer->recvs_planned.push_back(recv);
      end.peer->arriving.push_back(op);
    }
    if (end.planned.empty()) return;
    end.planned.back().flags |= abi::kWrSignaled;
    if (world_.bad_key && random_.chance(300)) break_key(end);
  }

  Operation random_operation(uint32_t mtu, uint32_t reads) {
    static constexpr abi::WrOpcode kOthers[] = {abi::WrOpcode::kSend, abi::WrOpcode::kSendImm,
                                                abi::WrOpcode::kWrite, abi::WrOpcode::kWriteImm};
    Operation op;
    op.opcode = random_.chance(reads) ? abi::WrOpcode::kRead : kOthers[random_.between(0, 3)];
    op.bytes = random_bytes(mtu);
    op.seed = static_cast<uint32_t>(random_.next());
    op.imm_wire = static_cast<uint32_t>(random_.next());
    if (random_.chance(700)) op.flags |= abi::kWrSignaled;
    if (random_.chance(100)) op.flags |= abi::kWrFence;
    if (random_.chance(100)) op.flags |= abi::kWrSolicited;
    if (!op.is_read() && op.bytes <= 256 && random_.chance(300)) op.flags |= abi::kWrInline;
    return op;
  }

  void break_key(End& end) {
    for (Operation& op : end.planned) {
      if (!(op.is_read() || op.is_write()) || op.bytes == 0 || !random_.chance(200)) continue;
      op.bad_key = true;
      end.may_fail = end.peer->may_fail = end.peer->may_flush = true;
      return;
    }
  }

  std::vector<abi::Sge> random_sges(const Station& station, uint64_t offset, uint32_t bytes) {
    std::vector<abi::Sge> sges;
    const uint32_t most = random_.between(1, 4);
    while (sges.size() + 1 < most && bytes != 0) {
      const uint32_t part = random_.between(0, bytes);
      sges.push_back(station.sge(offset, part));
      offset += part;
      bytes -= part;
    }
    if (bytes != 0 || random_.chance(500)) sges.push_back(station.sge(offset, bytes));
    return sges;
  }

  void post_one(End& end) {
    const Operation op = end.planned.front();
    end.planned.pop_front();
    SendRequest request;
    request.opcode = op.opcode;
    request.flags = op.flags;
    request.imm_wire = op.imm_wire;
    request.rkey = end.peer->station->keys.rkey ^ (op.bad_key ? 1U : 0U);
    request.remote_va = end.peer->station->va(op.remote);
    if (op.flags & abi::kWrInline) {
      const auto bytes = end.station->memory.range(end.station->va(op.local), op.bytes);
      request.inline_data.assign(bytes.begin(), bytes.end());
    } else {
      request.sges = random_sges(*end.station, op.local, op.bytes);
    }
    end.qp->post_send(request);
    end.posted.push_back(op);
    ++result_.operations;
  }

  void post_receives(End& end, uint32_t count) {
    for (; count != 0 && !end.recvs_planned.empty() && end.recvs.size() < 64; --count) {
      const Receive recv = end.recvs_planned.front();
      end.recvs_planned.pop_front();
      end.qp->post_recv(random_sges(*end.station, recv.local, recv.bytes));
      end.recvs.push_back(recv);
    }
    end.qp->ring_if_flushing(fabric_.now);
  }

  void act() {
    for (auto& end : ends_) {
      if (end->gone) continue;
      if (!world_.late_receives || random_.chance(50)) {
        post_receives(*end, world_.late_receives ? random_.between(1, 4) : 64);
      }
      if (end->planned.empty() || !random_.chance(300)) continue;
      for (uint32_t n = random_.between(1, 8); n != 0 && !end->planned.empty(); --n) {
        if (end->posted.size() >= 64) break;
        post_one(*end);
      }
      end->qp->ring(fabric_.now);
    }
    if (random_.chance(world_.memory_later)) {
      Station& station =
          fabric_.station(random_.between(0, static_cast<uint32_t>(fabric_.size()) - 1));
      station.memory.answer_next(MemResult::kLater, random_.between(1, 3));
    }
    if (world_.cut && random_.chance(5)) cut();
  }

  // The end of a connection, when nobody expects it.
  void cut() {
    world_.cut = false;
    End& end = *ends_[random_.between(0, static_cast<uint32_t>(ends_.size()) - 1)];
    end.may_fail = end.peer->may_fail = end.may_flush = true;
    if (random_.chance(500)) {
      (void)end.station->set_state(*end.qp, QpState::kErr, fabric_.now);
      return;
    }
    take_completions();
    end.gone = true;
    if (!end.station->device.destroy_qp(end.station->client, end.qp->qpn()).ok()) {
      fail("a queue pair could not be destroyed");
    }
  }

  void take_completions() {
    for (auto& end : ends_) {
      if (end->gone) continue;
      while (const auto wc = end->cq->poll()) {
        if (const auto wrong = check_completion(*end, *wc, world_.lossy()); !wrong.empty()) {
          return fail("QP " + std::to_string(wc->qpn) + ": " + wrong);
        }
      }
    }
  }

  bool all_done() const {
    return std::all_of(ends_.begin(), ends_.end(), [](const auto& end) {
      const bool waits_for_lost_peer = end->planned.empty() && end->posted.empty() && end->may_fail;
      return end->done() || waits_for_lost_peer;
    });
  }

  void advance() {
    Timestamp next = fabric_.next_time();
    // The applications act now and then, whether or not something happens.
    next = std::min(next, fabric_.now + random_.between(500, 200'000));
    fabric_.now = std::max(next, fabric_.now + 1);
  }

  // All is done: let the wire come to rest, then every byte must be right.
  void finish() {
    world_.memory_later = 0;
    if (!fabric_.drive_bounded(kLongestRun)) fail("does not come to rest");
    take_completions();
    for (auto& end : ends_) {
      if (end->station->memory.out_of_range() != 0)
        fail("memory outside of the region was asked for");
    }
    const bool whole =
        std::none_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->may_fail; });
    if (whole) check_images();
  }

  // Slices were checked when they completed, and must still hold; between them nothing may have
  // changed.
  void check_images() {
    for (size_t i = 0; i < fabric_.size(); ++i) {
      Station& station = fabric_.station(i);
      const auto bytes = station.memory.range(station.va(0), kMemoryBytes);
      const uint64_t used = next_offset_[i];
      if (!std::equal(bytes.begin() + static_cast<long>(used), bytes.end(),
                      images_[i].begin() + static_cast<long>(used))) {
        fail("bytes behind all slices changed");
      }
    }
  }

  Random random_;
  World world_;
  bool trace_;
  Fabric fabric_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<uint64_t> next_offset_;  // by station
  std::vector<std::vector<uint8_t>> images_;
  SwarmResult result_;
};

}  // namespace

SwarmResult run_swarm(uint64_t seed, bool trace) {
  return Swarm(seed, trace).run();
}

}  // namespace verbena::sim
