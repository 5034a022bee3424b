// Stations (a Device with one client) on a simulated wire with a virtual clock; Pair is two of
// them.
//
// Frames travel in virtual time; by default in no time and in order. A filter sees each one and
// says what becomes of it. Nothing here knows the protocol.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "stack/device.h"
#include "stack/wire/parse.h"
#include "tests/support/fake_memory.h"
#include "tests/support/fake_rings.h"
#include "tests/support/matchers.h"

namespace verbena::test {

struct QpOptions {
  uint32_t max_send_wr = 64;
  uint32_t max_recv_wr = 64;
  uint32_t max_send_sge = 4;
  uint32_t max_recv_sge = 4;
  uint32_t max_inline = 256;
  bool sq_sig_all = false;
  uint64_t user_handle = 0;
};

struct ConnectOptions {
  PathMtu mtu = PathMtu::k1024;
  uint32_t sq_psn = 0;
  uint32_t rq_psn = 0;
  uint32_t access = kAccessRemoteWrite | kAccessRemoteRead;
  uint32_t max_rd_atomic = 16;
  uint32_t max_dest_rd_atomic = 16;
  uint32_t min_rnr_timer = 1;  // 10 us
  uint32_t timeout = 14;       // 67 ms
  uint32_t retry_cnt = 7;
  uint32_t rnr_retry = 7;
};

// Small tables, so that a test is quick.
DeviceConfig small_config(uint8_t station);

class Station {
 public:
  static constexpr uint64_t kBase = 0x7f0000000000;

  explicit Station(const DeviceConfig& config, size_t memory_bytes = 1 << 20);

  // A QP with its own CQ for both directions, or on the given ones.
  ClientQp& add_qp(const QpOptions& options = {}, ClientCq* send_cq = nullptr,
                   ClientCq* recv_cq = nullptr);
  ClientCq& add_cq(uint32_t cqe, bool channel = false, uint64_t user_handle = 0);
  abi::Sge sge(uint64_t offset, uint32_t length) const {
    return {memory.base() + offset, length, keys.lkey};
  }
  uint64_t va(uint64_t offset) const { return memory.base() + offset; }
  Status modify(const ClientQp& qp, const abi::QpAttr& attr, uint32_t mask, Timestamp now);
  Status set_state(const ClientQp& qp, QpState state, Timestamp now);
  // RESET -> RTS towards `peer_qpn` at `gid`.
  void connect(const ClientQp& qp, const Gid& gid, Qpn peer_qpn, const ConnectOptions& options,
               Timestamp now, QpState until = QpState::kRts);
  QpState state(const ClientQp& qp) const;
  std::vector<DeviceEvent> take_events();
  uint64_t dropped(DropReason reason) const;

  FakeMemory memory;
  Device device;
  ClientId client;
  PdId pd;
  MrKeys keys;   // all of the memory, all rights
  ClientCq* cq;  // the default for new QPs
  std::vector<DeviceEvent> events;

 private:
  std::vector<std::unique_ptr<ClientCq>> cqs_;
  std::vector<std::unique_ptr<ClientQp>> qps_;
};

// The attributes and mask of one step on the way to RTS.
struct Step {
  abi::QpAttr attr{};
  uint32_t mask = 0;
};
Step init_step(const ConnectOptions& options);
Step rtr_step(const Gid& gid, Qpn peer_qpn, const ConnectOptions& options);
Step rts_step(const ConnectOptions& options);

// What becomes of a frame.
struct Fate {
  bool drop = false;
  uint32_t copies = 1;
  DurationNs delay = 0;
  bool corrupt = false;
};

class Fabric {
 public:
  using Filter = std::function<Fate(const wire::ParsedPacket&)>;

  Timestamp now = 1'000'000;
  uint32_t sink_capacity = UINT32_MAX;  // frames that one poll or burst may add
  uint32_t poll_budget = 64;
  Filter filter;
  bool record = true;
  std::vector<std::vector<uint8_t>> sent;  // when recording: all frames as sent

  Station& add(const DeviceConfig& config, size_t memory_bytes = 1 << 20);
  Station& station(size_t i) { return *stations_[i]; }
  size_t size() const { return stations_.size(); }

  // Delivers what is due, fires timers, lets every device send. False when nothing happened.
  bool step();
  // Steps and lets time pass until nothing is in flight and no timer runs, or until `limit`.
  // False: the limit was reached.
  bool drive_until(Timestamp limit);
  // Until idle; fails the test after an hour of virtual time or a million steps.
  void drive();
  // True: became idle within `duration`.
  bool drive_bounded(DurationNs duration) { return drive_until(now + duration); }
  void inject(size_t to, std::vector<uint8_t> frame, DurationNs delay = 0);
  // When something will happen by itself, or kNever.
  Timestamp next_time() const;
  size_t frames_in_flight() const { return in_flight_.size(); }
  // The recorded frames that match.
  size_t count(const Expect& expected) const;

 private:
  struct InFlight {
    Timestamp at;
    size_t to;
    std::vector<uint8_t> frame;
  };
  class Sink;

  void take(std::vector<uint8_t> frame);
  bool deliver_due();
  bool fire_timers();
  bool poll_all();

  std::vector<std::unique_ptr<Station>> stations_;
  std::deque<InFlight> in_flight_;  // by time, then by order of sending
};

// Two stations, a queue pair on each, connected.
class Pair : public Fabric {
 public:
  explicit Pair(const ConnectOptions& connect = {}, const QpOptions& options = {});

  Station& a;
  Station& b;
  ClientQp& qa;
  ClientQp& qb;
};

}  // namespace verbena::test
