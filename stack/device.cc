#include "stack/device.h"

#include <algorithm>
#include <bit>

#include "stack/base/id_table.h"
#include "stack/cq/cq.h"
#include "stack/qp/completer.h"
#include "stack/qp/completion.h"
#include "stack/qp/engine.h"
#include "stack/qp/qp_control.h"
#include "stack/qp/recv.h"
#include "stack/qp/requester.h"
#include "stack/qp/responder.h"
#include "stack/qp/store.h"
#include "stack/qp/ud.h"
#include "stack/wire/parse.h"

namespace verbena {
namespace {

constexpr uint32_t kRegKnownAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                     kAccessRemoteAtomic | kAccessMwBind;
// Bits 20..29 of the access flags are optional: a device may ignore them.
constexpr uint32_t kRegOptionalAccess = 0x3FF00000;
constexpr uint32_t kReregTranslation = 1, kReregPd = 2, kReregAccess = 4;
constexpr Qpn kFirstQpn = 16;  // 0 and 1 are special; a few more stay free

constexpr uint32_t round_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

bool access_valid(uint32_t access) {
  if ((access & ~(kRegKnownAccess | kRegOptionalAccess)) != 0) return false;
  // Remote write and atomic imply local write (o10-2.2, as ibv_reg_mr(3) says).
  const bool remote_write = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  return !remote_write || (access & kAccessLocalWrite) != 0;
}

}  // namespace

class DeviceImpl {
 public:
  struct Pd {
    ClientId client = 0;
    uint32_t users = 0;  // memory regions and queue pairs
  };

  struct Client {
    // `slots`: as many as it can have queue pairs.
    Client(ClientMemory* m, uint32_t slots) : memory(m), doorbells(slots), free_slots(slots) {
      for (uint32_t slot = 0; slot < slots; ++slot) VERBENA_ASSERT(free_slots.push(slot));
    }

    ClientMemory* memory;
    ClientUsage usage;
    std::vector<Qp*> doorbells;  // by slot
    FixedRing<uint32_t> free_slots;
  };

  explicit DeviceImpl(const DeviceConfig& c)
      : engine(c),
        clients(c.max_clients),
        pds(c.max_pd),
        cqs(c.max_cq),
        srqs(c.max_srq),
        qps(c.max_qp),
        qpn_base(kFirstQpn + static_cast<uint32_t>(c.seed % 0xF0) * 0x10000) {
    VERBENA_ASSERT(c.quantum_packets > 0 && c.window_packets > 0 && c.ack_every_packets > 0);
  }

  Qp* find_qp(Qpn qpn) const { return qpn < qpn_base ? nullptr : qps.find(qpn - qpn_base); }
  Qp* own_qp(ClientId client, Qpn qpn) const {
    Qp* qp = find_qp(qpn);
    return qp != nullptr && qp->client == client ? qp : nullptr;
  }
  Cq* own_cq(ClientId client, CqId id) const {
    Cq* cq = cqs.find(id);
    return cq != nullptr && cq->client() == client ? cq : nullptr;
  }
  Srq* own_srq(ClientId client, SrqId id) const {
    Srq* srq = srqs.find(id);
    return srq != nullptr && srq->client() == client ? srq : nullptr;
  }
  Pd* own_pd(ClientId client, PdId id) const {
    Pd* pd = pds.find(id);
    return pd != nullptr && pd->client == client ? pd : nullptr;
  }
  bool is_own(const Gid& gid) const {
    const std::vector<Gid>& gids = engine.config.gids;
    return std::find(gids.begin(), gids.end(), gid) != gids.end();
  }
  Result<Mr> make_mr(ClientId client, const MrSpec& spec) const;

  void remove_qp(Qp& qp);
  void receive(const RxFrame& frame);
  void deliver(const wire::ParsedPacket& packet, Qpn sender);
  void congestion(const Qp& qp, const wire::ParsedPacket& packet);
  Turn take_turn(Qp& qp, uint32_t budget, uint32_t& sent);

  Engine engine;
  IdTable<Client> clients;
  IdTable<Pd> pds;
  IdTable<Cq> cqs;
  IdTable<Srq> srqs;
  IdTable<Qp> qps;
  Qpn qpn_base;
};

namespace {
using Client = DeviceImpl::Client;
using Pd = DeviceImpl::Pd;
}  // namespace

Device::Device(const DeviceConfig& config) : impl_(std::make_unique<DeviceImpl>(config)) {}
Device::~Device() = default;

const DeviceConfig& Device::config() const {
  return impl_->engine.config;
}
const DeviceStats& Device::stats() const {
  return impl_->engine.stats;
}

// ---- Clients, protection domains, memory regions ----

Result<ClientId> Device::attach_client(ClientMemory& memory) {
  if (impl_->clients.full()) return Status(EUSERS);
  const uint32_t slots = std::min(impl_->engine.config.max_qp, abi::DoorbellPage::kSlots);
  return impl_->clients.add(std::make_unique<Client>(&memory, slots));
}

void Device::detach_client(ClientId client) {
  DeviceImpl& d = *impl_;
  if (d.clients.find(client) == nullptr) return;
  flush_placement(d.engine);
  d.qps.for_each([&](uint32_t, Qp& qp) {
    if (qp.client == client) d.remove_qp(qp);
  });
  d.srqs.for_each([&](uint32_t id, Srq& srq) {
    if (srq.client() == client) d.srqs.remove(id);
  });
  d.engine.ahs.for_each([&](uint32_t id, Ah& ah) {
    if (ah.client == client) d.engine.ahs.remove(id);
  });
  d.cqs.for_each([&](uint32_t id, Cq& cq) {
    if (cq.client() == client) d.cqs.remove(id);
  });
  d.engine.mrs.for_each([&](const Mr& mr) {
    if (mr.client == client) d.engine.mrs.remove(mr.key);
  });
  d.pds.for_each([&](uint32_t id, Pd& pd) {
    if (pd.client == client) d.pds.remove(id);
  });
  d.clients.remove(client);
}

ClientUsage Device::usage(ClientId client) const {
  const Client* owner = impl_->clients.find(client);
  return owner != nullptr ? owner->usage : ClientUsage{};
}

Result<PdId> Device::alloc_pd(ClientId client) {
  Client* owner = impl_->clients.find(client);
  if (owner == nullptr) return Status(EINVAL);
  if (impl_->pds.full()) return Status(ENOMEM);
  auto pd = std::make_unique<Pd>();
  pd->client = client;
  ++owner->usage.pds;
  return impl_->pds.add(std::move(pd));
}

Status Device::dealloc_pd(ClientId client, PdId pd) {
  DeviceImpl& d = *impl_;
  const Pd* object = d.own_pd(client, pd);
  if (object == nullptr) return Status(EINVAL);
  if (object->users != 0) return Status(EBUSY);
  d.pds.remove(pd);
  --d.clients.find(client)->usage.pds;
  return kOk;
}

Result<Mr> DeviceImpl::make_mr(ClientId client, const MrSpec& spec) const {
  const Client* owner = clients.find(client);
  if (owner == nullptr || own_pd(client, spec.pd) == nullptr || !access_valid(spec.access)) {
    return Status(EINVAL);
  }
  if (spec.length == 0 || spec.length > engine.config.max_mr_size) return Status(EINVAL);
  if (spec.va + spec.length < spec.va || spec.iova + spec.length < spec.iova) {
    return Status(EINVAL);
  }
  Mr mr;
  mr.client = client;
  mr.pd = spec.pd;
  mr.access = spec.access & kRegKnownAccess;
  mr.va = spec.va;
  mr.length = spec.length;
  mr.iova = spec.iova;
  mr.memory = owner->memory;
  return mr;
}

Result<MrKeys> Device::reg_mr(ClientId client, const MrSpec& spec) {
  const Result<Mr> mr = impl_->make_mr(client, spec);
  if (!mr.ok()) return mr.status();
  const Result<Key> key = impl_->engine.mrs.add(*mr);
  if (!key.ok()) return key.status();
  ++impl_->pds.find(spec.pd)->users;
  ++impl_->clients.find(client)->usage.mrs;
  return MrKeys{*key, *key, *key};
}

Result<MrKeys> Device::rereg_mr(ClientId client, uint32_t handle, uint32_t flags,
                                const MrSpec& spec) {
  const Mr* old = impl_->engine.mrs.find(handle);
  if (old == nullptr || old->client != client) return Status(EINVAL);
  if (flags == 0 || (flags & ~(kReregTranslation | kReregPd | kReregAccess)) != 0) {
    return Status(EINVAL);
  }
  MrSpec merged{old->pd, old->access, old->va, old->length, old->iova};
  if (flags & kReregPd) merged.pd = spec.pd;
  if (flags & kReregAccess) merged.access = spec.access;
  if (flags & kReregTranslation) {
    merged.va = spec.va;
    merged.length = spec.length;
    merged.iova = spec.iova;
  }
  const Result<Mr> mr = impl_->make_mr(client, merged);
  if (!mr.ok()) return mr.status();
  --impl_->pds.find(old->pd)->users;
  ++impl_->pds.find(merged.pd)->users;
  const Key key = impl_->engine.mrs.replace(handle, *mr);
  return MrKeys{key, key, key};
}

Status Device::dereg_mr(ClientId client, uint32_t handle) {
  const Mr* mr = impl_->engine.mrs.find(handle);
  if (mr == nullptr || mr->client != client) return Status(EINVAL);
  --impl_->pds.find(mr->pd)->users;
  --impl_->clients.find(client)->usage.mrs;
  impl_->engine.mrs.remove(handle);
  return kOk;
}

// ---- Completion queues ----

Result<uint32_t> Device::cq_depth(uint32_t cqe) const {
  if (cqe == 0 || cqe > config().max_cqe) return Status(EINVAL);
  return std::bit_ceil(cqe);
}

uint64_t Device::cq_region_bytes(uint32_t depth) {
  return Cq::region_bytes(depth);
}

Result<CqId> Device::create_cq(ClientId client, const CqSpec& spec) {
  Client* owner = impl_->clients.find(client);
  if (owner == nullptr) return Status(EINVAL);
  if (impl_->cqs.full()) return Status(ENOMEM);
  ++owner->usage.cqs;
  return impl_->cqs.add(std::make_unique<Cq>(impl_->cqs.next_id(), client, spec));
}

Status Device::resize_cq(ClientId client, CqId id, uint32_t depth, Region region) {
  Cq* cq = impl_->own_cq(client, id);
  return cq == nullptr ? Status(EINVAL) : cq->resize(depth, region);
}

Status Device::destroy_cq(ClientId client, CqId id) {
  Cq* cq = impl_->own_cq(client, id);
  if (cq == nullptr) return Status(EINVAL);
  if (cq->users != 0) return Status(EBUSY);
  impl_->cqs.remove(id);
  --impl_->clients.find(client)->usage.cqs;
  return kOk;
}

// ---- Queue pairs ----

Result<abi::QpLayout> Device::qp_layout(const abi::CreateQp& wanted) const {
  const DeviceConfig& c = config();
  if (wanted.max_send_wr > c.max_qp_wr || wanted.max_recv_wr > c.max_qp_wr ||
      wanted.max_send_sge > c.max_sge || wanted.max_recv_sge > c.max_sge ||
      wanted.max_inline_data > c.max_inline_data) {
    return Status(EINVAL);
  }
  abi::QpLayout layout{};
  layout.max_send_sge = std::max(wanted.max_send_sge, 1U);
  layout.max_recv_sge = std::max(wanted.max_recv_sge, 1U);
  layout.sq_depth = std::bit_ceil(std::max(wanted.max_send_wr, 1U));
  layout.rq_depth = std::bit_ceil(std::max(wanted.max_recv_wr, 1U));
  const auto sge_bytes = static_cast<uint32_t>(layout.max_send_sge * sizeof(abi::Sge));
  const auto head_bytes = static_cast<uint32_t>(sizeof(abi::SendWqe));
  layout.sq_stride = round_up(head_bytes + std::max(sge_bytes, wanted.max_inline_data), 64);
  layout.rq_stride = round_up(
      static_cast<uint32_t>(sizeof(abi::RecvWqe) + layout.max_recv_sge * sizeof(abi::Sge)), 32);
  layout.max_inline_data = std::min(layout.sq_stride - head_bytes, c.max_inline_data);
  layout.max_send_wr = layout.sq_depth;
  layout.max_recv_wr = layout.rq_depth;
  layout.sq_offset = abi::kQpRingsOffset;
  layout.rq_offset = layout.sq_offset + uint64_t{layout.sq_depth} * layout.sq_stride;
  layout.region_bytes = layout.rq_offset + uint64_t{layout.rq_depth} * layout.rq_stride;
  return layout;
}

Result<Device::CreatedQp> Device::create_qp(ClientId client, const QpSpec& spec) {
  DeviceImpl& d = *impl_;
  Client* owner = d.clients.find(client);
  Cq* send_cq = d.own_cq(client, spec.send_cq);
  Cq* recv_cq = d.own_cq(client, spec.recv_cq);
  Pd* pd = d.own_pd(client, spec.pd);
  if (owner == nullptr || pd == nullptr || send_cq == nullptr || recv_cq == nullptr) {
    return Status(EINVAL);
  }
  Srq* srq = spec.srq != 0 ? d.own_srq(client, spec.srq) : nullptr;
  if (spec.srq != 0 && srq == nullptr) return Status(EINVAL);
  if (spec.type != QpType::kRc && spec.type != QpType::kUd) return Status(EOPNOTSUPP);
  if (spec.region.bytes < spec.layout.region_bytes) return Status(EINVAL);
  if (d.qps.full() || owner->free_slots.empty()) return Status(ENOMEM);
  const Qpn qpn = d.qpn_base + d.qps.next_id();
  auto qp =
      std::make_unique<Qp>(qpn, client, spec, send_cq, recv_cq, srq, d.engine.config.max_msg_bytes);
  qp->doorbell_slot = owner->free_slots.front();
  owner->free_slots.pop();
  owner->doorbells[qp->doorbell_slot] = qp.get();
  ++send_cq->users;
  ++recv_cq->users;
  ++pd->users;
  if (srq != nullptr) ++srq->users;
  ++owner->usage.qps;
  const CreatedQp created{qpn, qp->doorbell_slot};
  d.qps.add(std::move(qp));
  return created;
}

void DeviceImpl::remove_qp(Qp& qp) {
  flush_placement(engine);
  engine.forget(qp);
  if (Client* owner = clients.find(qp.client)) {
    owner->doorbells[qp.doorbell_slot] = nullptr;
    VERBENA_ASSERT(owner->free_slots.push(qp.doorbell_slot));
    --owner->usage.qps;
  }
  --pds.find(qp.pd)->users;
  give_back_recv(qp);
  if (qp.srq != nullptr) --qp.srq->users;
  --qp.send_cq->users;
  --qp.recv_cq->users;
  qps.remove(qp.qpn - qpn_base);
}

Status Device::modify_qp(ClientId client, Qpn qpn, const abi::QpAttr& attr, uint32_t attr_mask,
                         Timestamp now) {
  Qp* qp = impl_->own_qp(client, qpn);
  if (qp == nullptr) return Status(EINVAL);
  impl_->engine.now = now;
  return qp_control::modify(impl_->engine, *qp, attr, attr_mask);
}

Result<abi::QpAttr> Device::query_qp(ClientId client, Qpn qpn) const {
  const Qp* qp = impl_->own_qp(client, qpn);
  if (qp == nullptr) return Status(EINVAL);
  return qp_control::query(*qp);
}

Status Device::destroy_qp(ClientId client, Qpn qpn) {
  Qp* qp = impl_->own_qp(client, qpn);
  if (qp == nullptr) return Status(EINVAL);
  impl_->remove_qp(*qp);
  return kOk;
}

// ---- Shared receive queues and address handles ----

Result<abi::SrqLayout> Device::srq_layout(const abi::CreateSrq& wanted) const {
  const DeviceConfig& c = config();
  if (wanted.max_wr == 0 || wanted.max_wr > c.max_qp_wr || wanted.max_sge > c.max_sge) {
    return Status(EINVAL);
  }
  abi::SrqLayout layout{};
  layout.depth = std::bit_ceil(wanted.max_wr);
  layout.max_wr = layout.depth;
  layout.max_sge = std::max(wanted.max_sge, 1U);
  if (wanted.srq_limit > layout.max_wr) return Status(EINVAL);
  layout.stride =
      round_up(static_cast<uint32_t>(sizeof(abi::RecvWqe) + layout.max_sge * sizeof(abi::Sge)), 32);
  layout.index_offset = abi::kSrqIndexOffset;
  layout.slots_offset =
      layout.index_offset + round_up(layout.depth * static_cast<uint32_t>(sizeof(uint32_t)), 64);
  layout.region_bytes = layout.slots_offset + uint64_t{layout.depth} * layout.stride;
  return layout;
}

Result<SrqId> Device::create_srq(ClientId client, const SrqSpec& spec) {
  DeviceImpl& d = *impl_;
  Pd* pd = d.own_pd(client, spec.pd);
  if (pd == nullptr || spec.region.bytes < spec.layout.region_bytes) return Status(EINVAL);
  if (d.srqs.full()) return Status(ENOMEM);
  ++pd->users;
  ++d.clients.find(client)->usage.srqs;
  return d.srqs.add(std::make_unique<Srq>(d.srqs.next_id(), client, spec));
}

Status Device::modify_srq(ClientId client, SrqId id, const abi::SrqAttr& attr, uint32_t attr_mask) {
  constexpr uint32_t kMaxWr = 1, kLimit = 2;  // enum ibv_srq_attr_mask
  Srq* srq = impl_->own_srq(client, id);
  if (srq == nullptr || (attr_mask & ~(kMaxWr | kLimit)) != 0) return Status(EINVAL);
  if (attr_mask & kMaxWr) return Status(EOPNOTSUPP);
  if (attr_mask & kLimit) {
    if (attr.srq_limit > srq->layout().max_wr) return Status(EINVAL);
    srq->arm_limit(attr.srq_limit);
  }
  return kOk;
}

Result<abi::SrqAttr> Device::query_srq(ClientId client, SrqId id) const {
  const Srq* srq = impl_->own_srq(client, id);
  if (srq == nullptr) return Status(EINVAL);
  return abi::SrqAttr{srq->layout().max_wr, srq->layout().max_sge, srq->limit(), 0};
}

Status Device::destroy_srq(ClientId client, SrqId id) {
  DeviceImpl& d = *impl_;
  const Srq* srq = d.own_srq(client, id);
  if (srq == nullptr) return Status(EINVAL);
  if (srq->users != 0) return Status(EBUSY);
  --d.pds.find(srq->pd())->users;
  --d.clients.find(client)->usage.srqs;
  d.srqs.remove(id);
  return kOk;
}

Result<AhId> Device::create_ah(ClientId client, const abi::CreateAh& wanted) {
  DeviceImpl& d = *impl_;
  Pd* pd = d.own_pd(client, wanted.pd);
  if (pd == nullptr) return Status(EINVAL);
  const Result<wire::Path> path = qp_control::resolve(d.engine, wanted);
  if (!path.ok()) return path.status();
  if (d.engine.ahs.full()) return Status(ENOMEM);
  ++pd->users;
  ++d.clients.find(client)->usage.ahs;
  auto ah = std::make_unique<Ah>();
  ah->client = client;
  ah->pd = wanted.pd;
  ah->path = *path;
  return d.engine.ahs.add(std::move(ah));
}

Status Device::destroy_ah(ClientId client, AhId id) {
  DeviceImpl& d = *impl_;
  const Ah* ah = d.engine.ahs.find(id);
  if (ah == nullptr || ah->client != client) return Status(EINVAL);
  --d.pds.find(ah->pd)->users;
  --d.clients.find(client)->usage.ahs;
  d.engine.ahs.remove(id);
  return kOk;
}

// ---- Data path ----

// Without a PSN, in whatever state the queue pair is (Annex A17).
void DeviceImpl::congestion(const Qp& qp, const wire::ParsedPacket& packet) {
  const bool from_peer = qp.type == QpType::kUd || packet.source_gid == qp.path.dest_gid;
  if (!from_peer || !is_own(packet.dest_gid)) return engine.drop(DropReason::kWrongAddress);
  ++engine.stats.cnp_received;
  engine.verdict = {.kind = RxVerdict::Kind::kCongestion};
}

void DeviceImpl::deliver(const wire::ParsedPacket& packet, Qpn sender) {
  // One of the two P_Keys must be a full member's; ours, 0xFFFF, is.
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return engine.drop(DropReason::kBadPkey);
  Qp* qp = find_qp(packet.dest_qpn);
  if (qp == nullptr) return engine.drop(DropReason::kUnknownQp);
  engine.receiving = qp;
  if (packet.info->operation == Operation::kCnp) return congestion(*qp, packet);
  const Transport expected = qp->type == QpType::kUd ? Transport::kUd : Transport::kRc;
  if (packet.info->transport != expected) return engine.drop(DropReason::kWrongTransport);
  if (qp->state == QpState::kReset || qp->state == QpState::kInit) {
    return engine.drop(DropReason::kQpState);
  }
  if (qp->type == QpType::kUd) {
    if (!is_own(packet.dest_gid)) return engine.drop(DropReason::kWrongAddress);
    return ud::on_packet(engine, *qp, packet);
  }
  if (packet.source_gid != qp->path.dest_gid || packet.dest_gid != qp->path.source_gid) {
    return engine.drop(DropReason::kWrongAddress);
  }
  // Clients of one device have one address: nothing else tells one's queue pair from another's.
  if (sender != 0 && sender != qp->attr.dest_qp_num) return engine.drop(DropReason::kWrongAddress);
  if (packet.info->is_response()) {
    completer::on_response(engine, *qp, packet);
  } else {
    responder::on_request(engine, *qp, packet);
  }
}

void DeviceImpl::receive(const RxFrame& frame) {
  DeviceStats& stats = engine.stats;
  ++stats.rcvd_pkts;
  stats.rcvd_bytes += frame.bytes;
  const auto parsed = wire::parse({frame.data, frame.bytes});
  if (const DropReason* reason = std::get_if<DropReason>(&parsed)) return engine.drop(*reason);
  const wire::ParsedPacket& packet = *std::get_if<wire::ParsedPacket>(&parsed);
  if (packet.dest_mac != engine.config.mac) return engine.drop(DropReason::kNotForUs);
  if (!wire::icrc_valid(packet)) return engine.drop(DropReason::kBadIcrc);
  deliver(packet, frame.sender);
}

void Device::on_burst(std::span<const RxFrame> frames, Timestamp now, TxSink& sink,
                      std::span<RxVerdict> verdicts) {
  Engine& engine = impl_->engine;
  engine.now = now;
  engine.sink = &sink;
  for (size_t i = 0; i < frames.size(); ++i) {
    engine.verdict = {};
    impl_->receive(frames[i]);
    if (i < verdicts.size()) verdicts[i] = engine.verdict;
  }
  engine.receiving = nullptr;
  // The frames are the caller's again after the return.
  flush_placement(engine);
  engine.sink = nullptr;
}

void Device::doorbell(ClientId client, uint32_t slot, Timestamp now) {
  DeviceImpl& d = *impl_;
  Client* owner = d.clients.find(client);
  if (owner == nullptr || slot >= owner->doorbells.size()) return;
  Qp* qp = owner->doorbells[slot];
  if (qp == nullptr) return;
  d.engine.now = now;
  if (qp->state == QpState::kErr) {
    flush_queues(d.engine, *qp);
  } else if (qp->state == QpState::kRts) {
    d.engine.activate(*qp);
  }
}

void Device::on_timeout(Timestamp now) {
  Engine& engine = impl_->engine;
  engine.now = now;
  while (TimerEntry* entry = engine.timers.expire(now)) {
    completer::on_timer(engine, *static_cast<Qp*>(entry->owner));
  }
}

// Answers first: they are what a peer waits for.
Turn DeviceImpl::take_turn(Qp& qp, uint32_t budget, uint32_t& sent) {
  const Turn turn = responder::send(engine, qp, budget, sent);
  if (turn != Turn::kIdle || sent >= budget) return turn == Turn::kIdle ? Turn::kMore : turn;
  return requester::send(engine, qp, budget, sent);
}

uint32_t Device::poll(Timestamp now, TxSink& sink, uint32_t budget) {
  DeviceImpl& d = *impl_;
  d.engine.now = now;
  d.engine.sink = &sink;
  uint32_t sent = 0;
  Qp* first_waiting = nullptr;  // the first that could not go on: a full round without it is enough
  while (sent < budget) {
    Qp* qp = d.engine.next_active();
    if (qp == nullptr) break;
    if (qp == first_waiting) {
      d.engine.activate(*qp);
      break;
    }
    uint32_t turn_sent = 0;
    const uint32_t quantum = std::min(d.engine.config.quantum_packets, budget - sent);
    const Turn turn = d.take_turn(*qp, quantum, turn_sent);
    sent += turn_sent;
    if (turn != Turn::kIdle) d.engine.activate(*qp);
    if (turn == Turn::kSinkFull) break;
    if (turn == Turn::kLater && first_waiting == nullptr) first_waiting = qp;
  }
  d.engine.sink = nullptr;
  return sent;
}

bool Device::has_work() const {
  return impl_->engine.active_head != nullptr;
}

Timestamp Device::next_timeout() const {
  return impl_->engine.timers.next();
}

std::optional<DeviceEvent> Device::poll_event() {
  EventQueue& events = impl_->engine.events;
  if (events.empty()) return std::nullopt;
  const DeviceEvent event = events.front();
  events.pop();
  return event;
}

}  // namespace verbena
