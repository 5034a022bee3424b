// A device fed packets by an attacker on the network, while its client does ordinary work: the
// input is a program of packets, posts, time and control calls. See world.h for what must be true
// at the end; besides, each work request is completed exactly once and in order, and a packet with
// a wrong ICRC is dropped and counted.
#include <array>
#include <set>
#include <vector>

#include "stack/qp/qp_state.h"
#include "stack/wire/emit.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/opcode.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/world.h"

namespace verbena::fuzz {
namespace {

using Frame = std::vector<uint8_t>;

constexpr uint32_t kMostOperations = 300;
constexpr size_t kFramesKept = 16;
constexpr DurationNs kMillisecond = 1'000'000;

// All opcodes that the table knows, and one that it does not.
constexpr std::array<uint8_t, 39> kOpcodes = {
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C,
    0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x20, 0x21, 0x22,
    0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x2B, 0x64, 0x65, 0x81, 0xFF};

// The work requests of a queue pair that have no completion yet.
struct Ledger {
  std::deque<bool> sends;  // signaled?
  uint32_t first_send = 0;
  uint32_t recvs = 0;
  uint32_t first_recv = 0;
};

class Attack {
 public:
  explicit Attack(Input input) : in_(input), ledgers_(world_.qps.size()) {}

  void run() {
    for (uint32_t i = 0; i < kMostOperations && !in_.empty(); ++i) {
      operate();
      take_completions();
    }
    world_.rest();
    take_completions();
    for (size_t i = 0; i < ledgers_.size(); ++i) check_flushed(i);
    world_.finish();
    take_completions();
  }

 private:
  void operate() {
    const uint8_t choice = in_.byte();
    switch (choice & 0x0F) {
      case 0:
      case 1:
      case 2:
        send_packet();
        break;
      case 3:
        send_raw();
        break;
      case 4:
        send_again();
        break;
      case 5:
        post_send();
        break;
      case 6:
        post_recv();
        break;
      case 7:
        post_shared();
        break;
      case 8:
        pass_time();
        break;
      case 9:
        modify();
        break;
      case 10:
        recreate();
        break;
      case 11:
        answer_later();
        break;
      case 12:
        change_mr();
        break;
      case 13:
        world_.fabric.sink_capacity = in_.flag() ? UINT32_MAX : in_.below(8);
        break;
      case 14:
        change_cq();
        break;
      case 15:
        if (in_.byte() == 0) world_.bystander_transfer();
        break;
    }
    if ((choice & 0x80) == 0) world_.fabric.step();  // else more of the same burst
  }

  // ---- Packets ----

  // Requests have PSNs near the expected one, responses near the last one sent.
  Psn near_psn(const AttackQp& qp, const OpcodeInfo& info) {
    const abi::QpAttr attr = *world_.device.query_qp(world_.client, qp.qp->qpn());
    const uint32_t base = info.is_response() ? attr.sq_psn - 1 : attr.rq_psn;
    const uint32_t delta = in_.byte();
    if (delta == 0xFF) return Psn(in_.number<uint32_t>() & Psn::kMask);
    return Psn((base + delta - (delta > 127 ? 256 : 0)) & Psn::kMask);
  }

  uint32_t payload_bytes() {
    const uint8_t choice = in_.byte();
    constexpr uint32_t kMtu = World::kMtu;
    switch (choice) {
      case 0:
        return 0;
      case 1:
        return kMtu - 1;
      case 2:
        return kMtu + 1;
      case 3:
        return 4096;
      default:
        return choice < 128 ? kMtu : choice - 128U;
    }
  }

  void set_remote_address(wire::PacketSpec& spec) {
    const AttackMr& mr = in_.pick(world_.mrs);
    const uint8_t choice = in_.byte();
    spec.rkey = mr.keys.rkey ^ (choice >> 6);
    spec.va = mr.spec.iova + (choice & 1 ? in_.number<uint16_t>() : 0);
    if (choice & 2) spec.va = in_.number<uint64_t>();
    spec.dma_length = choice & 4 ? in_.number<uint16_t>() : World::kMtu * ((choice >> 3) & 7U);
    if ((choice & 0x3C) == 0x3C) spec.dma_length = in_.number<uint32_t>();
  }

  wire::Path path_from(uint8_t station) const {
    wire::Path path;
    path.source_mac = world_.mac(station);
    path.dest_mac = world_.mac(1);
    path.source_gid = world_.gid(station);
    path.dest_gid = world_.gid(1);
    return path;
  }

  void send_packet() {
    const uint8_t target = in_.byte();
    const AttackQp& qp = world_.qps[target % world_.qps.size()];
    const bool at_bystander = (target & 0xE0) == 0xE0;
    uint8_t opcode = in_.pick(kOpcodes);
    if (qp.type == QpType::kUd && opcode < 0x20) opcode = opcode & 1 ? 0x65 : 0x64;
    const OpcodeInfo& info = opcode_info(opcode);
    const uint8_t flags = in_.byte();
    // Who spoofs the bystander's peer is its peer.
    const uint8_t from = flags & 1 && !at_bystander ? static_cast<uint8_t>(in_.below(4) + 1)
                         : at_bystander             ? 3
                                                    : source_of(qp);
    const wire::Path path = path_from(from);
    wire::PacketSpec spec;
    spec.path = &path;
    spec.opcode = static_cast<Opcode>(info.known() ? opcode : 0x04);
    spec.dest_qpn = at_bystander ? world_.bystander.qpn() : qp.qp->qpn();
    if (target == 0xDF) spec.dest_qpn = in_.number<uint32_t>() & kMulticastQpn;
    if (world_.is_bystander(spec.dest_qpn) && from != 3) return;
    spec.ack_req = flags & 2;
    spec.solicited = flags & 4;
    spec.becn = flags & 8;
    if (flags & 16) spec.pkey = in_.number<uint16_t>();
    spec.psn = near_psn(qp, info);
    set_extended(spec, opcode_info(spec.opcode));
    const bool tamper = flags & 0x20;
    send(build(spec, info.known() ? opcode : 0xFF), tamper);
  }

  void set_extended(wire::PacketSpec& spec, const OpcodeInfo& info) {
    if (info.has_reth || info.has_atomic_eth) set_remote_address(spec);
    if (info.has_atomic_eth) spec.swap_add = spec.compare = in_.byte();
    if (info.has_aeth) {
      spec.syndrome = in_.byte();
      spec.msn = in_.byte();
    }
    if (info.has_imm) spec.imm_wire = in_.byte();
    if (info.has_ieth) spec.invalidate_rkey = in_.pick(world_.mrs).keys.rkey;
    if (info.has_deth) {
      const uint8_t choice = in_.byte();
      spec.qkey = choice & 1 ? in_.number<uint32_t>() : World::kQkey;
      spec.source_qpn = choice >> 1;
    }
    if (info.has_payload) spec.payload_bytes = payload_bytes();
  }

  uint8_t source_of(const AttackQp& qp) const {
    for (uint8_t station = 1; station <= 4; ++station) {
      if (world_.gid(station) == qp.peer_gid) return station;
    }
    return 3;
  }

  static Frame build(const wire::PacketSpec& spec, uint8_t opcode) {
    Frame frame(wire::frame_bytes(spec));
    uint8_t* payload = wire::emit_headers(spec, frame.data());
    for (uint32_t i = 0; i < spec.payload_bytes; ++i) payload[i] = static_cast<uint8_t>(i);
    if (opcode == 0xFF) payload[-12] = opcode;  // nothing follows the BTH of a SEND Only
    wire::finish(spec, frame.data());
    return frame;
  }

  static void repair_icrc(Frame& frame) {
    constexpr size_t kIp = wire::EthernetView<uint8_t>::kBytes;
    constexpr size_t kLeastPacket = kIp + 20 + 8 + 12 + wire::kIcrcBytes;
    if (frame.size() < kLeastPacket) return;
    const size_t icrc = frame.size() - wire::kIcrcBytes;
    if (frame[kIp] >> 4 == 6 && frame.size() < kLeastPacket + 20) return;
    wire::store_icrc(frame.data() + icrc, {frame.data() + kIp, icrc - kIp});
  }

  void tamper_with(Frame& frame) {
    const uint8_t choice = in_.byte();
    for (uint32_t flips = choice & 3; flips != 0; --flips) {
      frame[in_.number<uint16_t>() % frame.size()] ^= in_.byte();
    }
    if (choice & 4) frame.resize(1 + in_.number<uint16_t>() % frame.size());
    if (choice & 8) frame.insert(frame.end(), in_.below(8), 0);
    if (choice & 16) repair_icrc(frame);
  }

  void send(Frame frame, bool tamper) {
    if (tamper && !frame.empty()) tamper_with(frame);
    const auto parsed = wire::parse(frame);
    const auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
    const bool good = packet != nullptr && wire::icrc_valid(*packet);
    if (good && world_.is_bystander(packet->dest_qpn) && packet->source_gid == world_.gid(2))
      return;
    if (recent_.size() == kFramesKept) recent_.pop_front();
    recent_.push_back(frame);
    const uint64_t before = dropped();
    world_.fabric.inject(0, std::move(frame));
    if (good) return;
    world_.fabric.step();
    require(dropped() > before, "a broken frame is dropped and counted");
  }

  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const uint64_t count : world_.device.stats().dropped) sum += count;
    return sum;
  }

  void send_raw() {
    const bool repair = in_.flag();
    const size_t size = in_.byte();
    const auto bytes = in_.bytes(size);
    Frame frame(bytes.begin(), bytes.end());
    if (repair) repair_icrc(frame);
    send(std::move(frame), false);
  }

  void send_again() {
    if (recent_.empty()) return;
    const uint8_t choice = in_.byte();
    send(recent_[(choice & 0x7F) % recent_.size()], (choice & 0x80) != 0);
  }

  // ---- The client's work ----

  std::vector<abi::Sge> sges(size_t most, uint32_t each_at_most) {
    std::vector<abi::Sge> list;
    const uint32_t count = in_.below(most + 1);
    for (uint32_t i = 0; i < count; ++i) {
      const AttackMr& mr = in_.pick(world_.mrs);
      const uint8_t choice = in_.byte();
      abi::Sge sge{mr.spec.iova + 64 * (choice & 63U), in_.number<uint16_t>() % each_at_most,
                   mr.keys.lkey};
      if (choice & 64) sge.lkey ^= choice;
      if (choice & 128) sge.va = in_.number<uint64_t>();
      list.push_back(sge);
    }
    return list;
  }

  size_t pick_qp() { return in_.below(world_.qps.size()); }

  void post_send() {
    const size_t which = pick_qp();
    AttackQp& qp = world_.qps[which];
    Ledger& ledger = ledgers_[which];
    const QpState state = world_.state(qp);
    // The verbs refuse it in the other states.
    if (state == QpState::kReset || state == QpState::kInit || state == QpState::kRtr) return;
    if (ledger.sends.size() >= World::kQpDepth) return;
    constexpr abi::WrOpcode kKinds[] = {abi::WrOpcode::kSend,     abi::WrOpcode::kSendImm,
                                        abi::WrOpcode::kWrite,    abi::WrOpcode::kWriteImm,
                                        abi::WrOpcode::kRead,     abi::WrOpcode::kLocalInv,
                                        abi::WrOpcode::kFetchAdd, abi::WrOpcode::kSend};
    const uint8_t choice = in_.byte();
    sim::SendRequest request;
    request.opcode = kKinds[choice & 7];
    request.flags = choice >> 4;  // fence, signaled, solicited, inline
    if (request.flags & abi::kWrInline) {
      request.inline_data.resize(in_.byte() % qp.qp->layout().max_inline_data);
    } else {
      request.sges = sges(3, 3000);
    }
    request.rkey = in_.pick(world_.mrs).keys.rkey;
    if (which == 5) request.rkey = world_.honest_keys.rkey;
    request.remote_va = which == 5 ? world_.there.va(World::kHonestOffset) : World::kBase + 0x1000;
    request.remote_va += 16U * in_.byte();
    request.ah = in_.flag() ? in_.byte() : world_.ah;
    request.remote_qpn = in_.byte();
    request.remote_qkey = World::kQkey;
    const uint32_t index = qp.qp->post_send(request);
    if (ledger.sends.empty()) ledger.first_send = index;
    ledger.sends.push_back((request.flags & abi::kWrSignaled) != 0);
    qp.qp->ring(world_.fabric.now);
  }

  void post_recv() {
    const size_t which = pick_qp();
    AttackQp& qp = world_.qps[which];
    Ledger& ledger = ledgers_[which];
    if (qp.shared || world_.state(qp) == QpState::kReset) return;
    if (ledger.recvs >= World::kQpDepth) return;
    const uint32_t index = qp.qp->post_recv(sges(3, 1024));
    if (ledger.recvs++ == 0) ledger.first_recv = index;
    qp.qp->ring_if_flushing(world_.fabric.now);
  }

  void post_shared() {
    const uint32_t slot = in_.below(world_.srq.depth());
    const auto list = sges(2, 1024);
    if (shared_.insert(slot).second) world_.srq.post_recv(slot, list);
    if (in_.byte() & 1) return;
    abi::SrqAttr attr{};
    attr.srq_limit = in_.below(20);
    (void)world_.device.modify_srq(world_.client, world_.srq.id(), attr, 2);
  }

  void take_completions() {
    while (const auto wc = world_.cq.poll()) {
      for (size_t i = 0; i < ledgers_.size(); ++i) {
        if (world_.qps[i].qp->qpn() == wc->qpn) return_work(ledgers_[i], *wc);
      }
    }
    while (world_.honest_cq.poll()) {
    }
  }

  void return_work(Ledger& ledger, const sim::Wc& wc) {
    if (wc.shared) {
      require(shared_.erase(wc.wqe_index) == 1, "a shared receive is completed once");
      return;
    }
    if (wc.recv) {
      require(ledger.recvs > 0, "a receive is completed once");
      require(wc.wqe_index == ledger.first_recv, "receives are completed in order");
      --ledger.recvs;
      ++ledger.first_recv;
      return;
    }
    for (;;) {
      require(!ledger.sends.empty(), "a send is completed once");
      const bool signaled = ledger.sends.front();
      ledger.sends.pop_front();
      if (ledger.first_send++ == wc.wqe_index) {
        require(signaled || wc.status != abi::WcStatus::kSuccess,
                "an unsignaled send that succeeded has no completion");
        return;
      }
      require(!signaled, "no completion is left out");
    }
  }

  void check_flushed(size_t which) {
    const AttackQp& qp = world_.qps[which];
    if (world_.state(qp) == QpState::kReset) return;
    const Ledger& ledger = ledgers_[which];
    require(ledger.recvs == 0, "all receives are flushed");
    for (const bool signaled : ledger.sends) require(!signaled, "all sends are flushed");
  }

  // ---- Time, control ----

  void pass_time() {
    const uint8_t choice = in_.byte();
    sim::Fabric& fabric = world_.fabric;
    if (choice & 1) {
      const Timestamp next = fabric.next_time();
      if (next < fabric.now + 60'000 * kMillisecond) fabric.now = std::max(fabric.now, next);
    } else {
      fabric.now += kMillisecond * (choice >> 1);
    }
    world_.settle();
  }

  void forget(size_t which) { ledgers_[which] = {}; }

  void modify() {
    const size_t which = pick_qp();
    AttackQp& qp = world_.qps[which];
    const uint8_t choice = in_.byte();
    if (choice == 0) {
      take_completions();
      forget(which);
      return world_.reconnect(qp);
    }
    abi::QpAttr attr = *world_.device.query_qp(world_.client, qp.qp->qpn());
    attr.qp_state = choice & 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = (choice >> 3) & 3U;
    attr.rnr_retry = attr.retry_cnt = choice >> 5;
    attr.en_sqd_async_notify = in_.flag();
    uint32_t mask = kAttrState;
    if (choice & 0x10) mask |= in_.number<uint32_t>() & ~uint32_t{kAttrDestQpn | kAttrAv};
    take_completions();
    const Status status =
        world_.device.modify_qp(world_.client, qp.qp->qpn(), attr, mask, world_.fabric.now);
    if (status.ok() && world_.state(qp) == QpState::kReset) {
      qp.qp->reset();
      forget(which);
    }
  }

  void recreate() {
    const size_t which = pick_qp();
    AttackQp& qp = world_.qps[which];
    take_completions();
    require(world_.device.destroy_qp(world_.client, qp.qp->qpn()).ok(),
            "a queue pair can be destroyed");
    forget(which);
    world_.make_qp(qp);
  }

  void answer_later() {
    constexpr MemResult kAnswers[] = {MemResult::kLater, MemResult::kFault, MemResult::kGone,
                                      MemResult::kLater};
    const uint8_t choice = in_.byte();
    world_.memory.answer_next(
        kAnswers[choice & 3], 1 + (choice >> 4),
        choice & 4 ? sim::Memory::Access::kRead : sim::Memory::Access::kWrite);
  }

  void change_mr() {
    AttackMr& mr = in_.pick(world_.mrs);
    world_.settle();
    world_.deregister_mr(mr);
    if (in_.flag()) require(world_.register_mr(mr).ok(), "memory can be registered again");
  }

  void change_cq() {
    world_.cq.arm(in_.flag() ? abi::kArmAny : abi::kArmSolicited);
    if (in_.flag()) (void)world_.cq.resize(256U << in_.below(2));
  }

  World world_;
  Input in_;
  std::vector<Ledger> ledgers_;
  std::set<uint32_t> shared_;  // slots of the shared receive queue that are posted
  std::deque<Frame> recent_;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::Attack({data, size}).run();
  return 0;
}
