#include "tests/sim/plan.h"

#include <algorithm>

#include "tests/sim/plan_parts.h"
#include "tools/sim/random.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kMaxInline = 128;

// ---- The network ----

constexpr uint32_t kAlways = 1'000;

// How much is lost: in most worlds little, so that retries suffice.
struct Rates {
  uint32_t drop, duplicate, corrupt, truncate, reorder;  // ppm, at most
};
constexpr Rates kGentle = {10'000, 30'000, 8'000, 4'000, 20'000};
constexpr Rates kHarsh = {100'000, 100'000, 10'000, 10'000, 200'000};

// How often a link has each of them, per mille.
struct Chances {
  uint32_t drop, duplicate, corrupt, truncate, reorder, jitter;
};
constexpr Chances kSome = {500, 350, 300, 200, 400, 600};
constexpr Chances kEach = {kAlways, kAlways, kAlways, kAlways, kAlways, kAlways};

Faults random_faults(Random& random, const Chances& chances, const Rates& most) {
  Faults faults;
  if (random.chance(chances.drop)) faults.drop_ppm = random.between(1'000, most.drop);
  if (random.chance(chances.duplicate)) {
    faults.duplicate_ppm = random.between(1'000, most.duplicate);
  }
  if (random.chance(chances.corrupt)) faults.corrupt_ppm = random.between(1'000, most.corrupt);
  if (random.chance(chances.truncate)) faults.truncate_ppm = random.between(1'000, most.truncate);
  if (random.chance(chances.reorder)) faults.reorder_ppm = random.between(1'000, most.reorder);
  faults.reorder_frames = random.between(1, 64);
  faults.reorder_hold = random.between(1'000, 200'000);
  return faults;
}

LinkConfig random_link(Random& random) {
  static constexpr uint64_t kRates[] = {1, 10, 25, 100};
  LinkConfig link;
  if (random.chance(600)) link.bits_per_second = kRates[random.between(0, 3)] * 1'000'000'000;
  link.queue_bytes = random.between(16, 256) * 1024;
  if (random.chance(700)) link.delay = random.between(100, 20'000);
  return link;
}

void plan_network(Plan& plan, bool every_fault) {
  Random random(plan.seed, kNetwork);
  const bool faulty = random.chance(every_fault ? kAlways : 650);
  const bool harsh = random.chance(100);
  const bool jitter = random.chance(every_fault ? kAlways : 300);
  const bool blackhole = random.chance(every_fault ? kAlways : 80);
  const Chances& chances = every_fault ? kEach : kSome;
  for (StationPlan& station : plan.stations) {
    for (LinkConfig* link : {&station.up, &station.down}) {
      *link = random_link(random);
      if (faulty) link->faults = random_faults(random, chances, harsh ? kHarsh : kGentle);
      if (jitter && random.chance(chances.jitter)) link->faults.jitter = random.between(1, 10'000);
    }
  }
  if (!blackhole) return;
  StationPlan& station =
      plan.stations[random.between(0, static_cast<uint32_t>(plan.stations.size()) - 1)];
  Faults& faults = random.chance(500) ? station.up.faults : station.down.faults;
  faults.blackhole_from = random.between(1'000'000, 2'000'000);
  faults.blackhole_until =
      faults.blackhole_from +
      (random.chance(500) ? random.between(50'000, kShortBlackhole) : 500'000'000);
}

// ---- Stations and queue pairs ----

void plan_world(Plan& plan, bool every_fault) {
  Random random(plan.seed, kWorld);
  plan.poll_budget = random.between(1, 80);
  if (random.chance(250)) plan.sink_capacity = random.between(1, 12);
  if (random.chance(250)) plan.later = random.between(10, 300);
  plan.late = random.chance(300);
  const uint32_t kind = random.between(every_fault ? 2 : 0, 9);  // below 2: no links
  plan.topology = kind < 2   ? Plan::Topology::kIdeal
                  : kind < 6 ? Plan::Topology::kCable
                             : Plan::Topology::kSwitch;
  plan.stations.resize(plan.topology == Plan::Topology::kCable ? 2 : random.between(1, 4));
}

void plan_stations(Plan& plan) {
  Random random(plan.seed, kStations);
  // Going back costs a window each time: small ones keep the run short.
  static constexpr uint32_t kWindows[] = {1, 2, 7, 16, 32, 512};
  for (StationPlan& station : plan.stations) {
    station.window_packets = kWindows[random.between(0, plan.faulty() ? 4 : 5)];
    station.ack_every_packets = random.between(1, 40);
    station.quantum_packets = random.between(1, 20);
  }
}

uint32_t random_bytes(Random& random, uint32_t mtu) {
  switch (random.between(0, 5)) {
    case 0:
      return random.between(0, 16);
    case 1:
      return mtu * random.between(0, 4) + random.between(0, 2);
    case 2:
      return random.between(1, mtu);
    case 3:
      return random.chance(100) ? random.between(1, 30'000) : random.between(1, 3 * mtu);
    default:
      return random.between(1, 5 * mtu);
  }
}

uint8_t random_flags(Random& random, const Operation& op) {
  uint8_t flags = 0;
  if (random.chance(700)) flags |= abi::kWrSignaled;
  if (random.chance(100)) flags |= abi::kWrFence;
  if (random.chance(100)) flags |= abi::kWrSolicited;
  if (random.chance(300) && !op.is_read() && op.bytes <= kMaxInline) flags |= abi::kWrInline;
  return flags;
}

void plan_operations(EndPlan& end, Random& random, uint32_t& number) {
  static constexpr abi::WrOpcode kOthers[] = {abi::WrOpcode::kSend, abi::WrOpcode::kSendImm,
                                              abi::WrOpcode::kWrite, abi::WrOpcode::kWriteImm};
  const bool datagrams = end.type == QpType::kUd;
  const uint32_t count = random.chance(100) ? random.between(1, 24) : random.between(1, 10);
  const uint32_t reads = random.between(0, 600);
  for (uint32_t i = 0; i < count; ++i) {
    Operation op;
    op.number = number++;
    op.opcode = !datagrams && random.chance(reads) ? abi::WrOpcode::kRead
                                                   : kOthers[random.between(0, datagrams ? 1 : 3)];
    op.bytes = datagrams ? random.between(0, random.chance(500) ? 64 : kUdMtu)
                         : random_bytes(random, mtu_bytes(end.connect.mtu));
    op.imm_wire = static_cast<uint32_t>(random.next());
    op.slack = random.chance(300) ? 0 : random.between(0, 100);
    op.flags = random_flags(random, op);
    end.ops.push_back(op);
  }
}

void plan_connection(Plan& plan, uint32_t& number) {
  const auto first = static_cast<uint32_t>(plan.ends.size());
  Random random(plan.seed, kEnd + first);
  EndPlan a;
  EndPlan b;
  ConnectOptions& c = a.connect;
  c.mtu = static_cast<PathMtu>(random.chance(600) ? 1 : random.between(1, 5));
  c.sq_psn = random.chance(300) ? 0xFFFFF0 : random.between(0, 0xFFFFFF);
  c.rq_psn = random.chance(300) ? 0xFFFFFA : random.between(0, 0xFFFFFF);
  c.timeout = random.between(9, 11);  // 2 to 8 ms
  c.max_rd_atomic = random.chance(300) ? 1 : random.between(1, 16);
  c.max_dest_rd_atomic = c.max_rd_atomic;
  c.min_rnr_timer = random.between(1, 12);  // 10 to 640 us
  c.rnr_retry = random.chance(100) ? random.between(0, 6) : 7;
  b.connect = c;
  std::swap(b.connect.sq_psn, b.connect.rq_psn);
  const auto last = static_cast<uint32_t>(plan.stations.size()) - 1;
  const bool cable = plan.topology == Plan::Topology::kCable;
  a.station = random.between(0, last);
  b.station = cable ? 1 - a.station : random.between(0, last);
  a.peer = first + 1;
  b.peer = first;
  for (EndPlan* end : {&a, &b}) {
    end->shares_receives = random.chance(200);
    end->shares_cq = random.chance(200);
    end->sig_all = random.chance(50);
    end->pace = random.between(1'000, 60'000);
    end->batch = random.between(1, 8);
  }
  plan_operations(a, random, number);
  if (random.chance(500)) plan_operations(b, random, number);
  plan.ends.push_back(std::move(a));
  plan.ends.push_back(std::move(b));
}

void plan_datagrams(Plan& plan, uint32_t count, uint32_t& number) {
  const auto first = static_cast<uint32_t>(plan.ends.size());
  for (uint32_t i = 0; i < count; ++i) {
    Random random(plan.seed, kEnd + first + i);
    EndPlan end;
    end.type = QpType::kUd;
    end.station = random.between(0, static_cast<uint32_t>(plan.stations.size()) - 1);
    // Copies that the network makes would take the receives of connections.
    end.shares_receives = !plan.duplicates() && random.chance(200);
    end.shares_cq = random.chance(200);
    end.pace = random.between(1'000, 60'000);
    end.batch = random.between(1, 8);
    if (i == 0 || random.chance(500)) plan_operations(end, random, number);
    for (Operation& op : end.ops) op.to = first + random.between(0, count - 1);
    plan.ends.push_back(std::move(end));
  }
  if (plan.topology != Plan::Topology::kCable) return;
  // Over a cable nobody can be reached but the other station.
  for (uint32_t i = first; i < plan.ends.size(); ++i) {
    const uint32_t own = (i - first) & 1;
    plan.ends[i].station = own;
    for (Operation& op : plan.ends[i].ops) {
      const uint32_t to = op.to - first;
      if ((to & 1) == own) op.to = first + ((to ^ 1) < count ? to ^ 1 : to - 1);
    }
  }
}

// ---- Operations that must fail ----

bool possible(Flaw flaw, const EndPlan& end, const Operation& op, const EndPlan& peer) {
  const bool datagram = end.type == QpType::kUd;
  switch (flaw) {
    case Flaw::kNone:
      return false;
    case Flaw::kBadRkey:
    case Flaw::kNoAccess:
      return !datagram && !op.is_send() && op.bytes != 0;
    case Flaw::kBadLkey:
      return !op.is_inline() && op.bytes != 0;
    case Flaw::kBadOpcode:
      return true;
    case Flaw::kTooLong:
      return !op.is_inline() && op.bytes != 0;
    case Flaw::kShortReceive:
    case Flaw::kBadReceive:
      return !datagram && op.is_send() && op.bytes != 0 && !peer.shares_receives;
    case Flaw::kBadHandle:
      return datagram;
  }
  return false;
}

void plan_flaws(Plan& plan) {
  Random random(plan.seed, kFlaws);
  if (!random.chance(250)) return;
  for (EndPlan& end : plan.ends) {
    if (!random.chance(400)) continue;
    for (Operation& op : end.ops) {
      const auto flaw = static_cast<Flaw>(random.between(1, 8));
      if (!random.chance(250) || !possible(flaw, end, op, plan.ends[end.peer])) continue;
      op.flaw = flaw;
      break;
    }
  }
}

// READs that must see the WRITE before them (RC-REQ-54).
void plan_read_backs(Plan& plan) {
  Random random(plan.seed, kReadBacks);
  for (EndPlan& end : plan.ends) {
    for (size_t i = 1; i < end.ops.size(); ++i) {
      const Operation& write = end.ops[i - 1];
      Operation& read = end.ops[i];
      if (!read.is_read() || write.opcode != abi::WrOpcode::kWrite || !random.chance(500)) continue;
      if (read.flaw != Flaw::kNone || write.flaw != Flaw::kNone) continue;
      read.reads_back = true;
      read.bytes = write.bytes;
    }
  }
}

void plan_incidents(Plan& plan) {
  Random random(plan.seed, kIncidents);
  const auto ends = static_cast<uint32_t>(plan.ends.size());
  const auto stations = static_cast<uint32_t>(plan.stations.size());
  const auto add = [&](uint32_t per_mille, Incident::Kind kind, uint32_t targets) {
    const Incident incident{kind, random.between(1'000, 500'000), random.between(0, targets - 1)};
    if (random.chance(per_mille)) plan.incidents.push_back(incident);
  };
  add(75, Incident::Kind::kError, ends);
  add(75, Incident::Kind::kDestroy, ends);
  add(60, Incident::Kind::kFault, stations);
  add(30, Incident::Kind::kGone, stations);
}

}  // namespace

Plan make_plan(uint64_t seed, const Reduction& reduction, bool every_fault) {
  Plan plan;
  plan.seed = seed;
  plan_world(plan, every_fault);
  plan_network(plan, every_fault);
  plan_stations(plan);
  Random random(seed, kConnections);
  uint32_t number = 0;
  const uint32_t connections = random.between(1, 4);
  for (uint32_t i = 0; i < connections; ++i) plan_connection(plan, number);
  if (random.chance(300)) plan_datagrams(plan, random.between(2, 4), number);
  plan_flaws(plan);
  plan_incidents(plan);
  plan_read_backs(plan);
  reduce(plan, reduction);
  lay_out(plan, reduction);
  return plan;
}

}  // namespace verbena::sim
