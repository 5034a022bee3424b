// Station: a device with one client, its memory and its side of the rings.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stack/device.h"
#include "tools/sim/memory.h"
#include "tools/sim/rings.h"

namespace verbena::sim {

struct QpOptions {
  QpType type = QpType::kRc;
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

  explicit Station(const DeviceConfig& config, size_t memory_bytes = 1 << 20, uint32_t cqe = 1024);

  // A QP on the station's CQ for both directions, or on the given ones; with a receive queue of its
  // own, or a shared one.
  ClientQp& add_qp(const QpOptions& options = {}, ClientCq* send_cq = nullptr,
                   ClientCq* recv_cq = nullptr, const ClientSrq* srq = nullptr);
  ClientCq& add_cq(uint32_t cqe, bool channel = false, uint64_t user_handle = 0);
  ClientSrq& add_srq(uint32_t max_wr, uint32_t max_sge);
  abi::Sge sge(uint64_t offset, uint32_t length) const {
    return {memory.base() + offset, length, keys.lkey};
  }
  uint64_t va(uint64_t offset) const { return memory.base() + offset; }
  Status modify(const ClientQp& qp, const abi::QpAttr& attr, uint32_t mask, Timestamp now);
  Status set_state(const ClientQp& qp, QpState state, Timestamp now);
  // RESET -> RTS of a UD queue pair.
  void activate_ud(const ClientQp& qp, uint32_t qkey, Timestamp now);
  // RESET -> RTS towards `peer_qpn` at `gid`.
  void connect(const ClientQp& qp, const Gid& gid, Qpn peer_qpn, const ConnectOptions& options,
               Timestamp now, QpState until = QpState::kRts);
  QpState state(const ClientQp& qp) const;
  std::vector<DeviceEvent> take_events();
  uint64_t dropped(DropReason reason) const;

  Memory memory;
  Device device;
  ClientId client;
  PdId pd;
  MrKeys keys;   // all of the memory, all rights
  ClientCq* cq;  // the default for new QPs; `cqe` entries
  std::vector<DeviceEvent> events;

 private:
  std::vector<std::unique_ptr<ClientCq>> cqs_;
  std::vector<std::unique_ptr<ClientSrq>> srqs_;
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

}  // namespace verbena::sim
