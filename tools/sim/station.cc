#include "tools/sim/station.h"

#include <algorithm>
#include <utility>

#include "stack/base/assert.h"
#include "stack/qp/qp_state.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kAllAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;

MacAddr mac_of(uint8_t station) {
  return {{0x02, 0, 0, 0, 0, station}};
}
Gid gid_of(uint8_t station) {
  return Gid::from_ipv4(0x0A000000U + station);
}

}  // namespace

DeviceConfig small_config(uint8_t station) {
  DeviceConfig config;
  config.mac = mac_of(station);
  config.gids = {gid_of(station)};
  for (uint8_t other = 1; other <= 4; ++other) {
    if (other != station) config.neighbors.push_back({gid_of(other), mac_of(other)});
  }
  config.seed = station;
  config.max_qp = 256;
  config.max_cq = 256;
  config.max_mr = 256;
  config.max_pd = 64;
  config.max_clients = 4;
  return config;
}

Station::Station(const DeviceConfig& config, size_t memory_bytes, uint32_t cqe)
    : memory(kBase, memory_bytes), device(config), client(*device.attach_client(memory)) {
  pd = *device.alloc_pd(client);
  keys = *device.reg_mr(client, {pd, kAllAccess, memory.base(), memory_bytes, memory.base()});
  cq = &add_cq(cqe);
}

ClientCq& Station::add_cq(uint32_t cqe, bool channel, uint64_t user_handle) {
  cqs_.push_back(std::make_unique<ClientCq>(device, client, cqe, channel, user_handle));
  return *cqs_.back();
}

ClientSrq& Station::add_srq(uint32_t max_wr, uint32_t max_sge) {
  abi::CreateSrq limits{};
  limits.max_wr = max_wr;
  limits.max_sge = max_sge;
  srqs_.push_back(std::make_unique<ClientSrq>(device, client, pd, limits));
  return *srqs_.back();
}

ClientQp& Station::add_qp(const QpOptions& options, ClientCq* send_cq, ClientCq* recv_cq,
                          const ClientSrq* srq) {
  abi::CreateQp limits{};
  limits.user_handle = options.user_handle;
  limits.max_send_wr = options.max_send_wr;
  limits.max_recv_wr = options.max_recv_wr;
  limits.max_send_sge = options.max_send_sge;
  limits.max_recv_sge = options.max_recv_sge;
  limits.max_inline_data = options.max_inline;
  limits.sq_sig_all = options.sq_sig_all;
  ClientCq& for_send = send_cq != nullptr ? *send_cq : *cq;
  ClientCq& for_recv = recv_cq != nullptr ? *recv_cq : for_send;
  qps_.push_back(std::make_unique<ClientQp>(device, client, pd, for_send, for_recv, limits,
                                            options.type, srq != nullptr ? srq->id() : 0));
  return *qps_.back();
}

Status Station::modify(const ClientQp& qp, const abi::QpAttr& attr, uint32_t mask, Timestamp now) {
  return device.modify_qp(client, qp.qpn(), attr, mask, now);
}

Status Station::set_state(const ClientQp& qp, QpState state, Timestamp now) {
  abi::QpAttr attr{};
  attr.qp_state = static_cast<uint32_t>(state);
  return modify(qp, attr, kAttrState, now);
}

Step init_step(const ConnectOptions& options) {
  Step step;
  step.attr.qp_state = static_cast<uint32_t>(QpState::kInit);
  step.attr.port_num = 1;
  step.attr.qp_access_flags = options.access;
  step.mask = kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
  return step;
}

Step rtr_step(const Gid& gid, Qpn peer_qpn, const ConnectOptions& options) {
  Step step;
  step.attr.qp_state = static_cast<uint32_t>(QpState::kRtr);
  step.attr.path_mtu = static_cast<uint32_t>(options.mtu);
  step.attr.dest_qp_num = peer_qpn;
  step.attr.rq_psn = options.rq_psn;
  step.attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  step.attr.min_rnr_timer = options.min_rnr_timer;
  step.attr.ah_is_global = 1;
  step.attr.ah_port_num = 1;
  std::copy(gid.bytes.begin(), gid.bytes.end(), step.attr.ah_dgid);
  step.mask = kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
              kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
  return step;
}

Step rts_step(const ConnectOptions& options) {
  Step step;
  step.attr.qp_state = static_cast<uint32_t>(QpState::kRts);
  step.attr.sq_psn = options.sq_psn;
  step.attr.timeout = options.timeout;
  step.attr.retry_cnt = options.retry_cnt;
  step.attr.rnr_retry = options.rnr_retry;
  step.attr.max_rd_atomic = options.max_rd_atomic;
  step.mask =
      kAttrState | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
  return step;
}

void Station::activate_ud(const ClientQp& qp, uint32_t qkey, Timestamp now) {
  abi::QpAttr attr{};
  attr.qp_state = static_cast<uint32_t>(QpState::kInit);
  attr.port_num = 1;
  attr.qkey = qkey;
  VERBENA_ASSERT(modify(qp, attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey, now).ok());
  attr.qp_state = static_cast<uint32_t>(QpState::kRtr);
  VERBENA_ASSERT(modify(qp, attr, kAttrState, now).ok());
  attr.qp_state = static_cast<uint32_t>(QpState::kRts);
  VERBENA_ASSERT(modify(qp, attr, kAttrState | kAttrSqPsn, now).ok());
}

void Station::connect(const ClientQp& qp, const Gid& gid, Qpn peer_qpn,
                      const ConnectOptions& options, Timestamp now, QpState until) {
  const Step steps[] = {init_step(options), rtr_step(gid, peer_qpn, options), rts_step(options)};
  for (const Step& step : steps) {
    if (step.attr.qp_state > static_cast<uint32_t>(until)) break;
    VERBENA_ASSERT(modify(qp, step.attr, step.mask, now).ok());
  }
}

QpState Station::state(const ClientQp& qp) const {
  return static_cast<QpState>(device.query_qp(client, qp.qpn())->qp_state);
}

std::vector<DeviceEvent> Station::take_events() {
  return std::exchange(events, {});
}

uint64_t Station::dropped(DropReason reason) const {
  return device.stats().dropped[static_cast<size_t>(reason)];
}

}  // namespace verbena::sim
