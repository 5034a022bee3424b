#include "tests/sim/swarm.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>

#include "stack/wire/describe.h"
#include "tests/sim/audit.h"
#include "tests/sim/model.h"

namespace verbena::sim {
namespace {

constexpr DurationNs kLongestRun = 120'000'000'000;  // two virtual minutes
constexpr uint32_t kMostSteps = 2'000'000;
constexpr uint32_t kDeadKey = 0xFFFF'FF00;  // no region has it
constexpr uint8_t kNoOpcode = 99;
constexpr uint32_t kQueueDepth = 16;

// Random streams of the run; those of the plan are in plan.cc.
enum Stream : uint64_t { kEndActs = 1'000, kLinks = 2'000 };

class Swarm {
 public:
  Swarm(uint64_t seed, const SwarmOptions& options)
      : options_(options),
        plan_(make_plan(seed, options.reduction, options.every_fault)),
        model_(plan_, fabric_.network, ends_),
        tallies_(plan_.stations.size()),
        naks_(plan_.stations.size()) {
    result_.world = plan_.text();
    set_hooks();
    for (uint32_t i = 0; i < plan_.stations.size(); ++i) make_station(i);
    connect_stations();
    ends_.resize(plan_.ends.size());
    for (uint32_t i = 0; i < plan_.ends.size(); ++i) {
      if (plan_.ends[i].active) make_end(i);
    }
    for (uint32_t i = 0; i < plan_.ends.size(); ++i) {
      if (plan_.ends[i].active) prepare(i);
    }
    incidents_ = plan_.incidents;
    start_ = fabric_.now;
  }

  SwarmResult run() {
    const Timestamp limit = start_ + kLongestRun;
    for (uint32_t steps = 0; result_.failure.empty() && !all_done(); ++steps) {
      act();
      const bool stepped = fabric_.step();
      take_completions();
      if (!stepped) advance();
      if (fabric_.now > limit || steps > kMostSteps) fail("comes to no end");
    }
    if (result_.failure.empty()) finish();
    if (options_.trace && !result_.failure.empty()) trace_ends();
    for (const auto& world : worlds_) {
      result_.resent += world->station->device.stats().retransmitted_pkts;
    }
    return result_;
  }

 private:
  void fail(const std::string& what) {
    if (result_.failure.empty() && !what.empty()) result_.failure = what;
  }

  // ---- Building the world ----

  void set_hooks() {
    fabric_.on_fault = [this](const std::string& what) { fail(what); };
    fabric_.record = false;
    fabric_.sink_capacity = plan_.sink_capacity;
    fabric_.poll_budget = plan_.poll_budget;
    fabric_.on_send = [this](size_t from, Frame& frame, const wire::ParsedPacket& packet) {
      on_send(from, frame, packet);
    };
    fabric_.on_deliver = [this](size_t to, const Frame& frame) { on_deliver(to, frame); };
  }

  void make_station(uint32_t index) {
    const StationPlan& plan = plan_.stations[index];
    DeviceConfig config = small_config(static_cast<uint8_t>(index + 1));
    config.window_packets = plan.window_packets;
    config.ack_every_packets = plan.ack_every_packets;
    config.quantum_packets = plan.quantum_packets;
    config.max_msg_bytes = kMaxMessage;
    config.max_qp = config.max_cq = 32;
    config.max_mr = config.max_pd = config.max_ah = 8;
    config.max_srq = config.max_clients = 2;
    worlds_.push_back(std::make_unique<World>());
    World& world = *worlds_.back();
    world.plan = &plan;
    world.station = &fabric_.add(config, plan.memory_bytes, 1);
    Station& station = *world.station;
    std::ranges::fill(station.memory.range(station.va(0), plan.memory_bytes), kBlankByte);
    world.no_access = *station.device.reg_mr(
        station.client,
        {station.pd, kAccessLocalWrite, station.va(0), plan.memory_bytes, station.va(0)});
    const auto count = static_cast<uint32_t>(plan.shared_receives.size());
    if (count != 0) world.srq = &station.add_srq(count, 1);
    for (const Slice& slice : plan.shared_receives) world.shared.push_back({.slice = slice});
  }

  void connect_stations() {
    const auto seed = [this](uint32_t i) { return plan_.seed * 0x9E3779B97F4A7C15 + kLinks + i; };
    if (plan_.topology == Plan::Topology::kCable) {
      fabric_.cable(0, 1, plan_.stations[0].up, plan_.stations[1].up, seed(0));
    } else if (plan_.topology == Plan::Topology::kSwitch) {
      Switch& hub = fabric_.network.add_switch();
      for (uint32_t i = 0; i < plan_.stations.size(); ++i) {
        fabric_.attach(i, hub, plan_.stations[i].up, plan_.stations[i].down, seed(i));
      }
    }
  }

  // Entries for all that may wait in the queue when nobody has polled it for a while.
  ClientCq& cq_for(World& world, const EndPlan& plan) {
    if (!plan.shares_cq) return world.station->add_cq(2 * kQueueDepth + 64);
    if (world.cq == nullptr) world.cq = &world.station->add_cq(512);
    return *world.cq;
  }

  void make_end(uint32_t index) {
    const EndPlan& plan = plan_.ends[index];
    World& world = *worlds_[plan.station];
    ends_[index] = std::make_unique<End>();
    End& end = *ends_[index];
    end.plan = &plan;
    end.world = &world;
    end.random = Random(plan_.seed, kEndActs + index);
    end.cq = &cq_for(world, plan);
    QpOptions options;
    options.type = plan.type;
    options.max_send_wr = options.max_recv_wr = kQueueDepth;
    options.max_inline = 128;
    options.sq_sig_all = plan.sig_all;
    end.qp =
        &world.station->add_qp(options, end.cq, end.cq, plan.shares_receives ? world.srq : nullptr);
    end.next_act = fabric_.now + end.random.between(0, 2'000);
    world.ends.push_back(&end);
  }

  const Gid& gid_of(const World& world) const { return world.station->device.config().gids[0]; }

  void prepare(uint32_t index) {
    End& end = *ends_[index];
    const EndPlan& plan = *end.plan;
    Station& station = *end.world->station;
    for (const Operation& op : plan.ops) end.ops.push_back({.op = &op});
    if (end.is_rc()) {
      end.peer = ends_[plan.peer].get();
      station.connect(*end.qp, gid_of(*end.peer->world), end.peer->qp->qpn(), plan.connect,
                      fabric_.now);
    } else {
      station.activate_ud(*end.qp, kQkey, fabric_.now);
      make_handles(*end.world);
      for (const Slice& slice : plan.datagram_receives) end.buffers.push_back({.slice = slice});
    }
    for (OperationState& op : end.ops) place(end, op);
  }

  void make_handles(World& world) {
    if (!world.ahs.empty()) return;
    for (const auto& other : worlds_) {
      abi::CreateAh wanted{};
      wanted.pd = world.station->pd;
      wanted.is_global = 1;
      wanted.port_num = 1;
      std::ranges::copy(gid_of(*other).bytes, wanted.dgid);
      world.ahs.push_back(*world.station->device.create_ah(world.station->client, wanted));
    }
  }

  // Puts the operation's bytes where it takes them from.
  void place(End& end, OperationState& op) {
    const Operation& o = *op.op;
    if (o.reads_back) return;
    World& source = o.is_read() ? *ends_[end.plan->peer]->world : *end.world;
    const Slice& slice = o.is_read() ? o.remote : o.from;
    source.station->memory.fill(source.station->va(slice.offset), slice.bytes, o.pattern());
    (o.is_read() ? op.remote : op.from) = Bytes::kData;
    if (!end.is_rc() || !o.consumes_receive()) return;
    End& peer = *ends_[end.plan->peer];
    peer.arriving.push_back(&op);
    if (!peer.plan->shares_receives) peer.receiving.push_back(&op);
  }

  // ---- Packets ----

  void on_send(size_t from, Frame& frame, const wire::ParsedPacket& packet) {
    ++result_.packets;
    for (const uint64_t value : {uint64_t{packet.opcode}, uint64_t{packet.psn.value()},
                                 uint64_t{packet.dest_qpn}, uint64_t{fabric_.now}}) {
      result_.trace_hash = (result_.trace_hash ^ value) * 0x100000001B3;
    }
    tallies_[from].on_sent(frame, packet, mtu_to(packet.dest_qpn));
    fail(naks_[from].on_sent(packet));
    if (options_.trace) trace(from, packet);
    if (options_.sabotage) options_.sabotage(frame, packet);
  }

  uint32_t mtu_to(Qpn qpn) const {
    for (const auto& end : ends_) {
      if (end != nullptr && end->qp->qpn() == qpn) return mtu_bytes(end->plan->connect.mtu);
    }
    return mtu_bytes(PathMtu::k4096);
  }

  void trace(size_t from, const wire::ParsedPacket& packet) const {
    std::printf("%llu station %zu: %s\n", static_cast<unsigned long long>(fabric_.now - start_),
                from, wire::describe(packet).c_str());
  }

  void trace_ends() const {
    for (const auto& end : ends_) {
      if (end == nullptr) continue;
      std::printf(
          "QP %u: %u of %zu posted, %u completed; receives: %u posted, %u completed%s%s%s\n",
          end->qp->qpn(), end->posted, end->ops.size(), end->completed, end->receives_posted,
          end->receives_completed, end->cut ? ", cut" : "", end->gone ? ", gone" : "",
          end->broken ? ", in error" : "");
    }
  }

  void on_deliver(size_t to, const Frame& frame) {
    tallies_[to].on_delivered(frame, *worlds_[to]);
    naks_[to].on_delivered(frame, *worlds_[to]);
    if (options_.trace && (frame.truncated || frame.flips != 0)) {
      std::printf("%llu station %zu is given a damaged packet\n",
                  static_cast<unsigned long long>(fabric_.now - start_), to);
    }
  }

  // ---- What the applications do ----

  abi::Sge sge(const World& world, const Slice& slice) const {
    return world.station->sge(slice.offset, slice.bytes);
  }

  SendRequest request_of(End& end, const Operation& op) {
    Station& station = *end.world->station;
    SendRequest request;
    request.opcode =
        op.flaw == Flaw::kBadOpcode ? static_cast<abi::WrOpcode>(kNoOpcode) : op.opcode;
    request.flags = op.flags;
    request.imm_wire = op.imm_wire;
    if (op.is_inline()) {
      const auto bytes = station.memory.range(station.va(op.from.offset), op.bytes);
      request.inline_data.assign(bytes.begin(), bytes.end());
    } else {
      for (const Slice& slice : op.local) request.sges.push_back(sge(*end.world, slice));
      if (op.flaw == Flaw::kBadLkey) {
        for (abi::Sge& piece : request.sges) piece.lkey = kDeadKey;
      }
      if (op.flaw == Flaw::kTooLong) request.sges.back().length = kMaxMessage + 1;
    }
    if (end.is_rc()) {
      const World& there = *end.peer->world;
      request.remote_va = there.station->va(op.remote.offset);
      request.rkey = there.station->keys.rkey;
      if (op.flaw == Flaw::kNoAccess) request.rkey = there.no_access.rkey;
      if (op.flaw == Flaw::kBadRkey) request.rkey = kDeadKey;
    } else {
      const End& to = *ends_[op.to];
      request.ah = op.flaw == Flaw::kBadHandle ? 0xFFFF : end.world->ahs[to.plan->station];
      request.remote_qpn = to.qp->qpn();
      request.remote_qkey = kQkey;
    }
    return request;
  }

  void post_one(End& end) {
    OperationState& op = end.ops[end.posted++];
    end.qp->post_send(request_of(end, *op.op));
    ++result_.operations;
    const Flaw flaw = op.op->flaw;
    end.world->malformed += flaw == Flaw::kBadOpcode || flaw == Flaw::kTooLong;
    // Inline bytes are the application's again at once.
    if (op.op->is_inline()) reuse(*end.world->station, op.op->from, op.op->pattern(), op.from);
  }

  void post_receive(End& end) {
    if (!end.is_rc()) {
      Buffer& buffer = end.buffers[end.receives_posted++];
      buffer.posted = true;
      const abi::Sge whole = sge(*end.world, buffer.slice);
      end.qp->post_recv({&whole, 1});
      return;
    }
    OperationState* op = end.receiving.front();
    end.receiving.pop_front();
    end.receives.push_back(op);
    std::vector<abi::Sge> sges;
    for (const Slice& slice : op->op->receive_sges) sges.push_back(sge(*end.world, slice));
    if (op->op->flaw == Flaw::kBadReceive) {
      for (abi::Sge& piece : sges) piece.lkey = kDeadKey;
    }
    end.qp->post_recv(sges);
    ++end.receives_posted;
  }

  void post_receives(End& end, uint32_t count) {
    World& world = *end.world;
    if (end.shares_receives()) {
      for (; count != 0 && world.shared_posted != world.shared.size(); --count) {
        Buffer& buffer = world.shared[world.shared_posted];
        buffer.posted = true;
        const abi::Sge whole = sge(world, buffer.slice);
        world.srq->post_recv(world.shared_posted++, {&whole, 1});
      }
      return;
    }
    const auto left = [&] {
      return end.is_rc() ? end.receiving.size() : end.buffers.size() - end.receives_posted;
    };
    while (count-- != 0 && left() != 0 &&
           end.receives_posted - end.receives_completed < kQueueDepth) {
      post_receive(end);
    }
    end.qp->ring_if_flushing(fabric_.now);
  }

  bool receives_left(const End& end) const {
    if (end.shares_receives()) return end.world->shared_posted != end.world->shared.size();
    return end.is_rc() ? !end.receiving.empty() : end.receives_posted != end.buffers.size();
  }

  void act() {
    run_incidents();
    for (const auto& end : ends_) {
      if (end != nullptr && end->next_act <= fabric_.now) act(*end);
    }
  }

  void act(End& end) {
    end.next_act = kNever;
    if (end.gone) return;
    const uint32_t posted_before = end.posted;
    post_receives(end, plan_.late ? end.random.between(0, 2) : kQueueDepth);
    uint32_t count = end.random.between(1, end.plan->batch);
    for (; count != 0 && !end.all_posted() && end.posted - end.completed < kQueueDepth; --count) {
      post_one(end);
    }
    end.qp->ring(fabric_.now);
    Memory& memory = end.world->station->memory;
    if (end.laters_left != 0 && end.random.chance(plan_.later) && !memory.answering()) {
      --end.laters_left;
      memory.answer_next(MemResult::kLater, end.random.between(1, 3));
    }
    // A queue pair in error is still posted to: everything is flushed.
    if (end.all_posted() && !receives_left(end)) return;
    // With a full queue it looks in less often.
    const uint32_t pause = end.random.between(500, end.plan->pace);
    end.next_act = fabric_.now + (end.posted == posted_before ? 4 : 1) * pause;
  }

  void run_incidents() {
    for (Incident& incident : incidents_) {
      if (start_ + incident.after > fabric_.now) continue;
      happen(incident);
      incident.after = kNever - start_;
    }
  }

  void happen(const Incident& incident) {
    using Kind = Incident::Kind;
    if (incident.kind == Kind::kFault || incident.kind == Kind::kGone) {
      World& world = *worlds_[incident.target];
      world.faulted = true;
      if (incident.kind == Kind::kFault) {
        world.station->memory.answer_next(MemResult::kFault, 1);
      } else {
        world.station->memory.answer_next(MemResult::kGone, UINT32_MAX);
      }
      return;
    }
    End* end = ends_[incident.target].get();
    if (end == nullptr || end->gone) return;
    end->cut = true;
    if (incident.kind == Kind::kError) {
      (void)end->world->station->set_state(*end->qp, QpState::kErr, fabric_.now);
      return;
    }
    take_completions();
    end->gone = true;
    Station& station = *end->world->station;
    if (!station.device.destroy_qp(station.client, end->qp->qpn()).ok()) {
      fail("a queue pair could not be destroyed");
    }
  }

  void take_completions() {
    for (const auto& end : ends_) {
      if (end == nullptr) continue;
      while (const auto wc = end->cq->poll()) fail(model_.check(*end->world, *wc));
    }
  }

  bool all_done() const {
    return std::ranges::all_of(ends_,
                               [](const auto& end) { return end == nullptr || end->done(); });
  }

  void advance() {
    Timestamp next = fabric_.next_time();
    for (const auto& end : ends_) {
      if (end != nullptr) next = std::min(next, end->next_act);
    }
    for (const Incident& incident : incidents_) next = std::min(next, start_ + incident.after);
    if (next == kNever) return all_done() ? void() : fail("stands still");
    fabric_.now = std::max(next, fabric_.now + 1);
  }

  // ---- The end ----

  // All is done: lets the network come to rest, ends what still waits, and looks at everything.
  void finish() {
    if (!fabric_.drive_bounded(kLongestRun)) return fail("does not come to rest");
    take_completions();
    check_received();
    for (const auto& end : ends_) {
      if (end == nullptr || end->gone) continue;
      end->cut = true;
      (void)end->world->station->set_state(*end->qp, QpState::kErr, fabric_.now);
    }
    take_completions();
    if (!fabric_.drive_bounded(kLongestRun)) return fail("does not come to rest in error");
    take_completions();
    for (const auto& end : ends_) {
      if (end != nullptr) check_settled(*end);
    }
    for (size_t i = 0; i < worlds_.size() && result_.failure.empty(); ++i) audit(i);
    if (fabric_.frames_in_flight() != 0) fail("a frame is lost in the simulator");
  }

  void check_received() {
    for (const auto& end : ends_) {
      if (end == nullptr || !end->is_rc()) continue;
      for (const OperationState& op : end->ops) {
        if (op.succeeded && op.op->consumes_receive() && !op.received) {
          fail("operation " + std::to_string(op.op->number) + ": completed, but never received");
        }
      }
    }
  }

  // Everything posted has had its completion.
  void check_settled(End& end) {
    if (end.gone) return;
    fail(model_.retire_silent(end));
    const std::string name = "QP " + std::to_string(end.qp->qpn());
    if (end.completed != end.posted) fail(name + ": sends were never completed");
    if (end.receives_completed != end.receives_posted) {
      fail(name + ": receives were never completed");
    }
  }

  void audit(size_t i) {
    World& world = *worlds_[i];
    fail(audit_memory(world, ends_));
    const std::string wrong = tallies_[i].check(world.station->device.stats(), world);
    if (!wrong.empty()) fail("station " + std::to_string(i) + ": " + wrong);
    fail(audit_leaks(world));
  }

  const SwarmOptions& options_;
  const Plan plan_;
  Fabric fabric_;
  std::vector<std::unique_ptr<World>> worlds_;
  std::vector<std::unique_ptr<End>> ends_;
  Model model_;
  std::vector<Tally> tallies_;
  std::vector<NakOnce> naks_;
  std::vector<Incident> incidents_;
  Timestamp start_ = 0;
  SwarmResult result_;
};

}  // namespace

SwarmResult run_swarm(uint64_t seed, const SwarmOptions& options) {
  return Swarm(seed, options).run();
}

}  // namespace verbena::sim
