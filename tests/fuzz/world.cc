#include "tests/fuzz/world.h"

#include <algorithm>

#include "stack/qp/qp_state.h"
#include "tests/fuzz/input.h"

namespace verbena::fuzz {
namespace {

using sim::ConnectOptions;
using sim::Step;

constexpr size_t kMemoryBytes = 0x8000;
constexpr size_t kBystanderBytes = 0x4000;
constexpr uint32_t kCqDepth = 256;  // all work requests of the attacker at once
constexpr uint32_t kLocal = kAccessLocalWrite;
constexpr uint32_t kRemote = kAccessRemoteRead | kAccessRemoteWrite;
constexpr uint32_t kMostSteps = 100'000;
constexpr DurationNs kSecond = 1'000'000'000;

DeviceConfig config_of(uint8_t station) {
  DeviceConfig config = sim::small_config(station);
  config.max_qp = config.max_cq = config.max_mr = config.max_srq = config.max_ah = 32;
  return config;
}

ConnectOptions connect_options() {
  ConnectOptions options;
  options.mtu = PathMtu::k256;
  // Near the end, so that PSNs wrap.
  options.sq_psn = 0xFFFFF0;
  options.rq_psn = 0xFFFFF0;
  options.access = kRemote;
  options.timeout = 8;  // 1 ms
  options.retry_cnt = 2;
  options.rnr_retry = 3;
  options.max_rd_atomic = options.max_dest_rd_atomic = 4;
  return options;
}

abi::CreateQp qp_limits() {
  abi::CreateQp limits{};
  limits.max_send_wr = limits.max_recv_wr = World::kQpDepth;
  limits.max_send_sge = limits.max_recv_sge = 3;
  limits.max_inline_data = 128;
  return limits;
}

abi::CreateSrq srq_limits() {
  abi::CreateSrq limits{};
  limits.max_wr = World::kQpDepth;
  limits.max_sge = 2;
  return limits;
}

// Bytes that nothing else holds. Made once: this is done for each input.
const std::vector<uint8_t>& noise() {
  static const std::vector<uint8_t> bytes = [] {
    std::vector<uint8_t> made(kMemoryBytes);
    for (size_t i = 0; i < made.size(); ++i) made[i] = sim::Memory::pattern(7, i);
    return made;
  }();
  return bytes;
}

}  // namespace

// ---- Memory ----

void GuardedMemory::guard(uint64_t va, uint64_t bytes, uint32_t access) const {
  const bool good = std::any_of(regions.begin(), regions.end(), [&](const MrSpec& mr) {
    return (mr.access & access) == access && va >= mr.va && va - mr.va <= mr.length &&
           bytes <= mr.length - (va - mr.va);
  });
  require(good, "the device stays inside what is registered");
}

MemResult GuardedMemory::read(uint64_t va, std::span<const MutableBytes> to) {
  uint64_t bytes = 0;
  for (const MutableBytes& piece : to) bytes += piece.size;
  guard(va, bytes, 0);
  return Memory::read(va, to);
}

MemResult GuardedMemory::write(uint64_t va, std::span<const ConstBytes> from, bool ordered) {
  uint64_t bytes = 0;
  for (const ConstBytes& piece : from) bytes += piece.size;
  guard(va, bytes, kAccessLocalWrite);
  return Memory::write(va, from, ordered);
}

// ---- Making the world ----

World::World()
    : here(fabric.add(config_of(1), kBystanderBytes)),
      there(fabric.add(config_of(2), kBystanderBytes)),
      device(here.device),
      bystander(here.add_qp()),
      bystander_peer(there.add_qp()),
      memory(kBase, kMemoryBytes),
      client(*device.attach_client(memory)),
      pd(*device.alloc_pd(client)),
      cq(device, client, kCqDepth, true, 0),
      srq(device, client, pd, srq_limits()),
      honest_pd(*there.device.alloc_pd(there.client)),
      honest_keys(
          *there.device.reg_mr(there.client, {honest_pd, kLocal | kRemote, there.va(kHonestOffset),
                                              kHonestBytes, there.va(kHonestOffset)})),
      honest_cq(there.device, there.client, kCqDepth, false, 0),
      honest_peer(there.device, there.client, honest_pd, honest_cq, honest_cq, qp_limits()) {
  fabric.record = false;
  for (uint8_t station = 1; station <= 4; ++station) {
    const DeviceConfig config = sim::small_config(station);
    addresses_.push_back({config.gids[0], config.mac});
  }
  guard_image_ = noise();
  std::copy(guard_image_.begin(), guard_image_.end(), memory.at(kBase));
  here.connect(bystander, gid(2), bystander_peer.qpn(), {.mtu = PathMtu::k256}, fabric.now);
  there.connect(bystander_peer, gid(1), bystander.qpn(), {.mtu = PathMtu::k256}, fabric.now);
  make_mrs();
  make_qps();
  bystander_transfer();
}

// Holes lie between them, and one ends just below the end of all addresses.
void World::make_mrs() {
  mrs = {
      {{pd, kLocal | kRemote, kBase + 0x1000, 0x3000, kBase + 0x1000}, {}},
      {{pd, kAccessRemoteRead, kBase + 0x5000, 0x1000, kBase + 0x5000}, {}},
      {{pd, kLocal | kRemote, kBase + 0x7000, 0x700, ~uint64_t{0} - 0x7FF}, {}},
  };
  for (AttackMr& mr : mrs) require(register_mr(mr).ok(), "memory can be registered");
}

void World::make_qp(AttackQp& qp) {
  qp.qp = std::make_unique<ClientQp>(device, client, pd, cq, cq, qp_limits(), qp.type,
                                     qp.shared ? srq.id() : 0);
}

void World::make_qps() {
  qps.resize(6);
  qps[1].shared = qps[4].shared = true;
  qps[2].type = QpType::kUd;
  for (AttackQp& qp : qps) {
    make_qp(qp);
    qp.peer_gid = gid(3);
    qp.peer = kNobodysQpn;
  }
  // Two speak to each other, on one device.
  qps[3].peer = qps[4].qp->qpn();
  qps[4].peer = qps[3].qp->qpn();
  qps[3].peer_gid = qps[4].peer_gid = gid(1);
  qps[5].peer = honest_peer.qpn();
  qps[5].peer_gid = gid(2);
  for (AttackQp& qp : qps) reconnect(qp);
  there.connect(honest_peer, gid(1), qps[5].qp->qpn(), connect_options(), fabric.now);
  abi::CreateAh address{};
  address.pd = pd;
  address.is_global = 1;
  address.port_num = 1;
  const Gid nobody = gid(3);
  std::copy(nobody.bytes.begin(), nobody.bytes.end(), address.dgid);
  ah = *device.create_ah(client, address);
}

Result<MrKeys> World::register_mr(AttackMr& mr) {
  const Result<MrKeys> keys = device.reg_mr(client, mr.spec);
  if (!keys.ok()) return keys;
  mr.keys = *keys;
  memory.regions.push_back(mr.spec);
  return keys;
}

void World::deregister_mr(AttackMr& mr) {
  if (mr.keys.handle == 0) return;
  require(device.dereg_mr(client, mr.keys.handle).ok(), "memory can be deregistered");
  mr.keys.handle = 0;  // the keys stay: stale ones are worth a try
  std::erase_if(memory.regions, [&](const MrSpec& spec) { return spec.va == mr.spec.va; });
}

QpState World::state(const AttackQp& qp) const {
  return static_cast<QpState>(device.query_qp(client, qp.qp->qpn())->qp_state);
}

void World::reconnect(AttackQp& qp) {
  const auto modify = [&](const abi::QpAttr& attr, uint32_t mask) {
    require(device.modify_qp(client, qp.qp->qpn(), attr, mask, fabric.now).ok(),
            "a queue pair can be connected");
  };
  abi::QpAttr attr{};
  modify(attr, kAttrState);  // RESET
  qp.qp->reset();
  if (qp.type == QpType::kUd) {
    attr.qp_state = static_cast<uint32_t>(QpState::kInit);
    attr.port_num = 1;
    attr.qkey = kQkey;
    modify(attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey);
    attr.qp_state = static_cast<uint32_t>(QpState::kRtr);
    modify(attr, kAttrState);
    attr.qp_state = static_cast<uint32_t>(QpState::kRts);
    modify(attr, kAttrState | kAttrSqPsn);
    return;
  }
  const ConnectOptions options = connect_options();
  for (const Step& step : {sim::init_step(options), sim::rtr_step(qp.peer_gid, qp.peer, options),
                           sim::rts_step(options)}) {
    modify(step.attr, step.mask);
  }
}

// ---- Going on ----

void World::settle() {
  for (int i = 0; i < 50 && fabric.step(); ++i) {
  }
}

void World::bystander_transfer() {
  constexpr uint32_t kBytes = 700;
  check_bystander();
  fabric.sink_capacity = UINT32_MAX;
  const uint32_t seed = 100 + 10 * transfers_++;
  here.memory.fill(here.va(0), kBytes, seed);
  there.memory.fill(there.va(0), kBytes, seed + 1);
  bystander.post_recv(std::vector{here.sge(0x2000, 0x1000)});
  bystander.post_send({.opcode = abi::WrOpcode::kWrite,
                       .sges = {here.sge(0, kBytes)},
                       .rkey = there.keys.rkey,
                       .remote_va = there.va(0x1000)});
  bystander.post_send({.opcode = abi::WrOpcode::kRead,
                       .sges = {here.sge(0x1000, kBytes)},
                       .rkey = there.keys.rkey,
                       .remote_va = there.va(0)});
  bystander_peer.post_send({.sges = {there.sge(0, kBytes)}});
  bystander.ring(fabric.now);
  bystander_peer.ring(fabric.now);
  for (uint32_t steps = 0; here.cq->waiting() < 3 || there.cq->waiting() < 1; ++steps) {
    require(steps < kMostSteps && fabric.next_time() != kNever, "the bystander's transfer ends");
    if (!fabric.step()) fabric.now = std::max(fabric.now, fabric.next_time());
  }
  for (ClientCq* queue : {here.cq, there.cq}) {
    for (const sim::Wc& wc : queue->poll_all()) {
      require(wc.status == abi::WcStatus::kSuccess, "the bystander's work succeeds");
    }
  }
  require(there.memory.holds(there.va(0x1000), kBytes, seed), "the bystander's WRITE arrives");
  require(here.memory.holds(here.va(0x1000), kBytes, seed + 1), "its READ brings the bytes");
  require(here.memory.holds(here.va(0x2000), kBytes, seed + 1), "what was sent to it arrives");
  const auto bytes = here.memory.range(here.va(0), kBystanderBytes);
  bystander_image_.assign(bytes.begin(), bytes.end());
}

// ---- The end ----

void World::check_bystander() {
  if (transfers_ == 0) return;
  require(here.state(bystander) == QpState::kRts, "the bystander's queue pair is as it was");
  require(here.cq->waiting() == 0, "the bystander gets no completion that is not its own");
  const auto bytes = here.memory.range(here.va(0), kBystanderBytes);
  require(std::equal(bytes.begin(), bytes.end(), bystander_image_.begin()),
          "the bystander's memory is as it was");
}

void World::check_guards() {
  for (const AttackMr& mr : mrs) {
    if ((mr.spec.access & kLocal) == 0) continue;
    const auto now = memory.range(mr.spec.va, mr.spec.length);
    std::copy(now.begin(), now.end(), guard_image_.begin() + static_cast<long>(mr.spec.va - kBase));
  }
  const auto all = memory.range(kBase, kMemoryBytes);
  require(std::equal(all.begin(), all.end(), guard_image_.begin()),
          "what may not be written is as it was");
}

void World::rest() {
  memory.answer_next(MemResult::kDone, 0);
  memory.on_write = nullptr;
  fabric.sink_capacity = UINT32_MAX;
  abi::QpAttr attr{};
  attr.qp_state = static_cast<uint32_t>(QpState::kErr);
  for (const AttackQp& qp : qps) {
    if (state(qp) == QpState::kReset) continue;
    require(device.modify_qp(client, qp.qp->qpn(), attr, kAttrState, fabric.now).ok(),
            "a queue pair can be put into the error state");
    qp.qp->ring(fabric.now);
  }
  require(fabric.drive_bounded(100 * kSecond), "all comes to rest");
}

void World::destroy_all() {
  for (AttackQp& qp : qps) {
    require(device.destroy_qp(client, qp.qp->qpn()).ok(), "a queue pair can be destroyed");
  }
  for (AttackMr& mr : mrs) deregister_mr(mr);
  require(device.destroy_ah(client, ah).ok(), "an address handle can be destroyed");
  require(device.destroy_srq(client, srq.id()).ok(), "a shared receive queue can be destroyed");
  require(device.destroy_cq(client, cq.id()).ok(), "a completion queue can be destroyed");
  require(device.dealloc_pd(client, pd).ok(), "a protection domain can be freed");
  const ClientUsage usage = device.usage(client);
  require(usage.pds + usage.mrs + usage.cqs + usage.qps + usage.srqs + usage.ahs == 0,
          "nothing is left");
  device.detach_client(client);
}

void World::finish() {
  rest();
  bystander_transfer();
  check_guards();
  require(fabric.drive_bounded(100 * kSecond), "all comes to rest again");
  destroy_all();
  bystander_transfer();
  require(here.memory.out_of_range() == 0, "the bystander's regions are kept to");
}

}  // namespace verbena::fuzz
