// World: the device that is attacked, the attacker's client on it, and those whom it must not
// touch.
//
//   station 0 `here`    the device. Its first client is the bystander, connected to `there`; its
//                       second one is the attacker, with queue pairs of every kind
//   station 1 `there`   an honest device: the bystander's peer, and that of one attacking queue
//   pair nobody              an address without a device, to which one attacking queue pair is
//   connected
//                       so that the fuzzer may speak for the peer
//
// finish() says what must be true at the end of every input: the bystander's bytes and queue pair
// are as they were and still work, the attacker reached no memory outside of its regions, the
// device comes to rest, and each object can be destroyed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tools/sim/fabric.h"

namespace verbena::fuzz {

using sim::ClientCq;
using sim::ClientQp;
using sim::ClientSrq;
using sim::Station;

// Memory that ends the process when the device asks for bytes outside of what is registered.
class GuardedMemory : public sim::Memory {
 public:
  using Memory::Memory;

  MemResult read(uint64_t va, std::span<const MutableBytes> to) override;
  MemResult write(uint64_t va, std::span<const ConstBytes> from, bool ordered) override;

  std::vector<MrSpec> regions;  // those that are registered now

 private:
  void guard(uint64_t va, uint64_t bytes, uint32_t access) const;
};

struct AttackQp {
  QpType type = QpType::kRc;
  bool shared = false;  // takes receives from the shared queue
  Qpn peer = 0;         // 0: itself
  Gid peer_gid;
  std::unique_ptr<ClientQp> qp;
};

struct AttackMr {
  MrSpec spec;
  MrKeys keys;
};

class World {
 public:
  static constexpr Qpn kNobodysQpn = 0x77;
  static constexpr uint64_t kBase = 0x10000000;
  static constexpr uint32_t kQpDepth = 16;
  static constexpr uint32_t kQkey = 0x11111111;
  static constexpr uint32_t kMtu = 256;

  World();

  // Lets the device do what it can now, up to a bound.
  void settle();
  // The bystander and its peer write, read and send to each other; all of it must succeed.
  void bystander_transfer();
  void reconnect(AttackQp& qp);
  // Makes the queue pair, in RESET.
  void make_qp(AttackQp& qp);
  // The attacker's QPs go to the error state and all comes to rest.
  void rest();
  void finish();

  Result<MrKeys> register_mr(AttackMr& mr);
  void deregister_mr(AttackMr& mr);
  QpState state(const AttackQp& qp) const;
  bool is_bystander(Qpn qpn) const { return qpn == bystander.qpn(); }
  Gid gid(uint8_t station) const { return addresses_[station - 1].gid; }
  MacAddr mac(uint8_t station) const { return addresses_[station - 1].mac; }

  sim::Fabric fabric;
  Station& here;
  Station& there;
  Device& device;
  ClientQp& bystander;
  ClientQp& bystander_peer;

  // The attacker's.
  GuardedMemory memory;
  const ClientId client;
  const PdId pd;
  std::vector<AttackMr> mrs;
  ClientCq cq;
  ClientSrq srq;
  std::vector<AttackQp> qps;
  AhId ah = 0;

  // Those of the peer of the last one, whose owner behaves.
  const PdId honest_pd;
  const MrKeys honest_keys;  // of kHonestBytes at kHonestOffset of `there`
  ClientCq honest_cq;
  ClientQp honest_peer;
  static constexpr uint64_t kHonestOffset = 0x3000;
  static constexpr uint64_t kHonestBytes = 0x1000;

 private:
  void make_mrs();
  void make_qps();
  void check_guards();
  void check_bystander();
  void destroy_all();

  std::vector<Neighbor> addresses_;
  std::vector<uint8_t> guard_image_;  // of the attacker's memory
  std::vector<uint8_t> bystander_image_;
  uint32_t transfers_ = 0;
};

}  // namespace verbena::fuzz
