// Rings written by a hostile client: any bytes anywhere in the memory that it shares with the
// device, at any time, also while the device stores to its memory; impossible indices; doorbells
// that do not exist. See world.h for what must be true at the end. The address sanitizer watches
// the ends of the regions.
#include <cstring>

#include "stack/qp/qp_state.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/world.h"

namespace verbena::fuzz {
namespace {

constexpr uint32_t kMostOperations = 300;
constexpr DurationNs kMillisecond = 1'000'000;

class Liar {
 public:
  explicit Liar(Input input) : in_(input) {}

  void run() {
    for (uint32_t i = 0; i < kMostOperations && !in_.empty(); ++i) operate();
    // Whoever reads the rings after this finds them as the liar left them.
    world_.finish();
  }

 private:
  void operate() {
    const uint8_t choice = in_.byte();
    switch (choice % 12) {
      case 0:
        write_anywhere();
        break;
      case 1:
        write_send();
        break;
      case 2:
        write_recv();
        break;
      case 3:
        write_shared();
        break;
      case 4:
        set_tail();
        break;
      case 5:
        set_cq_header();
        break;
      case 6:
        ring();
        break;
      case 7:
        peer_works();
        break;
      case 8:
        pass_time();
        break;
      case 9:
        change_state();
        break;
      case 10:
        write_while_stored();
        break;
      case 11:
        (void)world_.cq.resize(1U + in_.number<uint16_t>() % 512);
        break;
    }
    if (choice < 192) world_.settle();
  }

  AttackQp& pick_qp() { return in_.pick(world_.qps); }

  // Of a QP, the CQ or the SRQ.
  uint32_t pick_ring() { return in_.below(world_.qps.size() + 2); }

  Region region_of(uint32_t ring) {
    if (ring < world_.qps.size()) return world_.qps[ring].qp->region();
    return ring == world_.qps.size() ? world_.cq.region() : world_.srq.region();
  }

  void write_anywhere() {
    const Region region = region_of(pick_ring());
    const uint64_t offset = in_.number<uint16_t>() % region.bytes;
    const auto bytes = in_.bytes(in_.byte());
    const uint64_t fits = std::min<uint64_t>(bytes.size(), region.bytes - offset);
    if (fits != 0) std::memcpy(region.base + offset, bytes.data(), fits);
  }

  // Numbers that break arithmetic, and small ones.
  uint32_t odd_number() {
    const uint8_t choice = in_.byte();
    if (choice < 200) return choice;
    constexpr uint32_t kEdges[] = {0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 0x10000, 0xFFFF};
    return choice < 250 ? kEdges[choice % std::size(kEdges)] : in_.number<uint32_t>();
  }

  abi::Sge odd_sge() {
    const AttackMr& mr = in_.pick(world_.mrs);
    const uint8_t choice = in_.byte();
    abi::Sge sge{mr.spec.iova, odd_number(), mr.keys.lkey};
    if (choice & 1) sge.va += odd_number();
    if (choice & 2) sge.va = in_.number<uint64_t>();
    if (choice & 4) sge.lkey ^= choice;
    return sge;
  }

  void write_sges(uint8_t* to, uint32_t room) {
    const uint32_t count = in_.below(room + 1);
    for (uint32_t i = 0; i < count; ++i) {
      const abi::Sge sge = odd_sge();
      std::memcpy(to + i * sizeof sge, &sge, sizeof sge);
    }
  }

  void write_send() {
    AttackQp& qp = pick_qp();
    uint8_t* slot = qp.qp->send_slot(in_.byte());
    const uint8_t choice = in_.byte();
    abi::SendWqe wqe{};
    wqe.opcode = choice & 0x80 ? in_.byte() : choice & 7;
    wqe.flags = in_.byte() & 0x0F;
    wqe.num_sge = static_cast<uint16_t>(choice & 0x40 ? odd_number() : (choice >> 3) & 3U);
    if (wqe.flags & abi::kWrInline) {
      if ((choice & 0x40) == 0) wqe.num_sge = 0;
      wqe.inline_length = odd_number();
    }
    wqe.rkey = qp.peer == world_.honest_peer.qpn() ? world_.honest_keys.rkey
                                                   : in_.pick(world_.mrs).keys.rkey;
    wqe.remote_va = qp.peer == world_.honest_peer.qpn() ? world_.there.va(World::kHonestOffset)
                                                        : World::kBase + 0x1000;
    wqe.remote_va += in_.byte();
    wqe.ah = in_.flag() ? world_.ah : odd_number();
    wqe.remote_qpn = odd_number();
    wqe.remote_qkey = in_.flag() ? World::kQkey : odd_number();
    std::memcpy(slot, &wqe, sizeof wqe);
    write_sges(slot + sizeof wqe, qp.qp->layout().max_send_sge);
  }

  void write_recv_at(uint8_t* slot, uint32_t max_sge) {
    abi::RecvWqe wqe{};
    wqe.num_sge = odd_number();
    if (wqe.num_sge < 200) wqe.num_sge %= max_sge + 3;
    std::memcpy(slot, &wqe, sizeof wqe);
    write_sges(slot + sizeof wqe, max_sge);
  }

  void write_recv() {
    AttackQp& qp = pick_qp();
    write_recv_at(qp.qp->recv_slot(in_.byte()), qp.qp->layout().max_recv_sge);
  }

  void write_shared() {
    const abi::SrqLayout& layout = world_.srq.layout();
    uint8_t* base = world_.srq.region().base;
    const uint32_t slot = in_.byte() % layout.depth;
    write_recv_at(base + layout.slots_offset + uint64_t{slot} * layout.stride, layout.max_sge);
    const uint32_t named = in_.flag() ? slot : odd_number();
    std::memcpy(base + layout.index_offset + in_.byte() % layout.depth * sizeof named, &named,
                sizeof named);
  }

  void set_tail() {
    const uint8_t which = in_.byte();
    if (which % 8 == 7) {
      auto* header = reinterpret_cast<abi::SrqHeader*>(world_.srq.region().base);
      header->tail.store(odd_number());
      return;
    }
    AttackQp& qp = world_.qps[which % world_.qps.size()];
    abi::QpHeader& header = qp.qp->header();
    std::atomic<uint32_t>& tail = which & 0x80 ? header.rq_tail : header.sq_tail;
    if (which & 0x40) {
      tail.store(odd_number());
    } else {
      tail.store(tail.load() + in_.below(World::kQpDepth + 2));
    }
    if ((which & 0x20) == 0) qp.qp->ring(world_.fabric.now);
  }

  void set_cq_header() {
    abi::CqHeader& header = world_.cq.header();
    switch (in_.below(4)) {
      case 0:
        header.consumer.store(odd_number());
        break;
      case 1:
        header.arm.store(odd_number());
        break;
      case 2:
        header.fired.store(odd_number());
        break;
      case 3:  // as one who behaves
        (void)world_.cq.poll_all();
        break;
    }
  }

  void ring() {
    const uint32_t slot = in_.flag() ? in_.below(8) : odd_number();
    world_.device.doorbell(world_.client, slot, world_.fabric.now);
  }

  void peer_works() {
    const uint8_t choice = in_.byte();
    const auto sge = [&](uint32_t bytes) {
      return abi::Sge{world_.there.va(World::kHonestOffset), bytes, world_.honest_keys.lkey};
    };
    (void)world_.honest_cq.poll_all();
    constexpr abi::WrOpcode kKinds[] = {abi::WrOpcode::kSend, abi::WrOpcode::kSendImm,
                                        abi::WrOpcode::kWrite, abi::WrOpcode::kRead};
    const AttackMr& mr = in_.pick(world_.mrs);
    world_.honest_peer.post_send({.opcode = kKinds[choice & 3],
                                  .sges = {sge(in_.number<uint16_t>() % 2000)},
                                  .rkey = mr.keys.rkey,
                                  .remote_va = mr.spec.iova});
    world_.honest_peer.post_recv(std::vector{sge(2000)});
    world_.honest_peer.ring(world_.fabric.now);
  }

  void pass_time() {
    world_.fabric.now += kMillisecond * in_.byte();
    world_.settle();
  }

  void change_state() {
    AttackQp& qp = pick_qp();
    const uint8_t choice = in_.byte();
    if (choice & 8) return world_.reconnect(qp);
    abi::QpAttr attr = *world_.device.query_qp(world_.client, qp.qp->qpn());
    attr.qp_state = choice & 7;
    (void)world_.device.modify_qp(world_.client, qp.qp->qpn(), attr, kAttrState, world_.fabric.now);
  }

  // The device is in the middle of a message when the lambda is called. The CQ may have moved by
  // then.
  void write_while_stored() {
    const uint32_t ring = pick_ring();
    const uint32_t place = in_.number<uint16_t>();
    const uint8_t value = in_.byte();
    world_.memory.on_write = [this, ring, place, value] {
      const Region region = region_of(ring);
      const uint64_t offset = place % region.bytes;
      std::memset(region.base + offset, value, std::min<uint64_t>(64, region.bytes - offset));
    };
  }

  World world_;
  Input in_;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::Liar({data, size}).run();
  return 0;
}
