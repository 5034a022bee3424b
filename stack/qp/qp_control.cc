#include "stack/qp/qp_control.h"

#include <algorithm>

#include "stack/qp/completion.h"
#include "stack/qp/qp_state.h"
#include "stack/qp/recv.h"
#include "stack/qp/requester.h"

namespace verbena::qp_control {
namespace {

constexpr uint32_t kKnownAccess =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
// The kernel replaces the hop limit of unicast RoCEv2 by the route's, and so do we.
constexpr uint8_t kHopLimit = 64;

bool values_valid(const Engine& engine, const abi::QpAttr& attr, uint32_t mask) {
  const DeviceConfig& config = engine.config;
  const uint32_t most_rd_atomic = std::min(config.max_rd_atomic, kMaxRdAtomic);
  const auto given = [mask](uint32_t bit) { return (mask & bit) != 0; };
  if (given(kAttrPort) && attr.port_num != 1) return false;
  if (given(kAttrPkeyIndex) && attr.pkey_index != 0) return false;
  if (given(kAttrAccessFlags) && (attr.qp_access_flags & ~kKnownAccess) != 0) return false;
  if (given(kAttrPathMtu) &&
      (!mtu_valid(attr.path_mtu) || attr.path_mtu > static_cast<uint32_t>(config.active_mtu))) {
    return false;
  }
  if (given(kAttrDestQpn) && (attr.dest_qp_num == 0 || attr.dest_qp_num >= kMulticastQpn)) {
    return false;
  }
  if (given(kAttrMaxQpRdAtomic) && attr.max_rd_atomic > most_rd_atomic) return false;
  if (given(kAttrMaxDestRdAtomic) && attr.max_dest_rd_atomic > most_rd_atomic) return false;
  if (given(kAttrTimeout) && attr.timeout > 31) return false;
  if (given(kAttrRetryCnt) && attr.retry_cnt > 7) return false;
  if (given(kAttrRnrRetry) && attr.rnr_retry > 7) return false;
  if (given(kAttrMinRnrTimer) && attr.min_rnr_timer > 31) return false;
  if (given(kAttrAltPath) || given(kAttrRateLimit)) return false;
  return true;
}

const MacAddr* find_mac(const DeviceConfig& config, const Gid& gid) {
  for (const Gid& own : config.gids) {
    if (own == gid) return &config.mac;
  }
  for (const Neighbor& neighbor : config.neighbors) {
    if (neighbor.gid == gid) return &neighbor.mac;
  }
  return nullptr;
}

abi::CreateAh address_of(const abi::QpAttr& attr) {
  abi::CreateAh address{};
  address.is_global = attr.ah_is_global;
  address.sgid_index = attr.ah_sgid_index;
  address.traffic_class = attr.ah_traffic_class;
  address.flow_label = attr.ah_flow_label;
  address.port_num = attr.ah_port_num;
  for (size_t i = 0; i < sizeof address.dgid; ++i) address.dgid[i] = attr.ah_dgid[i];
  return address;
}

void copy_av(abi::QpAttr& to, const abi::QpAttr& from) {
  to.ah_is_global = from.ah_is_global;
  to.ah_sgid_index = from.ah_sgid_index;
  to.ah_hop_limit = from.ah_hop_limit;
  to.ah_traffic_class = from.ah_traffic_class;
  to.ah_flow_label = from.ah_flow_label;
  to.ah_sl = from.ah_sl;
  to.ah_port_num = from.ah_port_num;
  to.ah_dlid = from.ah_dlid;
  to.ah_static_rate = from.ah_static_rate;
  for (size_t i = 0; i < sizeof to.ah_dgid; ++i) to.ah_dgid[i] = from.ah_dgid[i];
}

void copy_given(abi::QpAttr& to, const abi::QpAttr& from, uint32_t mask) {
  const auto copy = [&](uint32_t bit, uint32_t abi::QpAttr::*field) {
    if (mask & bit) to.*field = from.*field;
  };
  copy(kAttrEnSqdAsyncNotify, &abi::QpAttr::en_sqd_async_notify);
  copy(kAttrAccessFlags, &abi::QpAttr::qp_access_flags);
  copy(kAttrPkeyIndex, &abi::QpAttr::pkey_index);
  copy(kAttrPort, &abi::QpAttr::port_num);
  copy(kAttrQkey, &abi::QpAttr::qkey);
  copy(kAttrPathMtu, &abi::QpAttr::path_mtu);
  copy(kAttrTimeout, &abi::QpAttr::timeout);
  copy(kAttrRetryCnt, &abi::QpAttr::retry_cnt);
  copy(kAttrRnrRetry, &abi::QpAttr::rnr_retry);
  copy(kAttrRqPsn, &abi::QpAttr::rq_psn);
  copy(kAttrMaxQpRdAtomic, &abi::QpAttr::max_rd_atomic);
  copy(kAttrMinRnrTimer, &abi::QpAttr::min_rnr_timer);
  copy(kAttrSqPsn, &abi::QpAttr::sq_psn);
  copy(kAttrMaxDestRdAtomic, &abi::QpAttr::max_dest_rd_atomic);
  copy(kAttrPathMigState, &abi::QpAttr::path_mig_state);
  copy(kAttrDestQpn, &abi::QpAttr::dest_qp_num);
  to.rq_psn &= Psn::kMask;
  to.sq_psn &= Psn::kMask;
}

void reset(Engine& engine, Qp& qp) {
  engine.forget(qp);
  give_back_recv(qp);
  qp.state = QpState::kReset;
  qp.attr = {};
  qp.path = {};
  qp.sq.reset();
  qp.rq.reset();
  qp.req = {};
  qp.resp = {};
  qp.header().sq_tail.store(0, std::memory_order_relaxed);
  qp.header().rq_tail.store(0, std::memory_order_relaxed);
  qp.header().flushing.store(0, std::memory_order_release);
}

void enter(Engine& engine, Qp& qp, QpState to) {
  const QpState from = qp.state;
  switch (to) {
    case QpState::kReset:
      return reset(engine, qp);
    case QpState::kErr:
      return enter_error(engine, qp);
    case QpState::kRtr:
      qp.resp.at.epsn = Psn(qp.attr.rq_psn);
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) {
        qp.req.next_psn = qp.req.una = qp.req.sent = Psn(qp.attr.sq_psn);
      }
      engine.activate(qp);
      break;
    case QpState::kSqd:
      if (from != QpState::kSqd) qp.req.drain_reported = false;
      break;
    case QpState::kInit:
    case QpState::kSqe:
      break;
  }
  qp.state = to;
}

}  // namespace

Result<wire::Path> resolve(const Engine& engine, const abi::CreateAh& address) {
  const DeviceConfig& config = engine.config;
  if (!address.is_global || address.sgid_index >= config.gids.size()) return Status(EINVAL);
  if (address.port_num != 0 && address.port_num != 1) return Status(EINVAL);
  wire::Path path;
  path.source_gid = config.gids[address.sgid_index];
  for (size_t i = 0; i < path.dest_gid.bytes.size(); ++i) {
    path.dest_gid.bytes[i] = address.dgid[i];
  }
  if (path.source_gid.is_zero() || path.dest_gid.is_zero()) return Status(EINVAL);
  if (path.source_gid.is_ipv4() != path.dest_gid.is_ipv4()) return Status(EINVAL);
  const MacAddr* mac = find_mac(config, path.dest_gid);
  if (mac == nullptr) return Status(EHOSTUNREACH);
  path.source_mac = config.mac;
  path.dest_mac = *mac;
  path.traffic_class = static_cast<uint8_t>(address.traffic_class);
  path.flow_label = address.flow_label & 0xFFFFF;
  path.hop_limit = kHopLimit;
  return path;
}

Status modify(Engine& engine, Qp& qp, const abi::QpAttr& attr, uint32_t mask) {
  if ((mask & kAttrCurState) && attr.cur_qp_state != static_cast<uint32_t>(qp.state)) {
    return Status(EINVAL);
  }
  if ((mask & kAttrState) && attr.qp_state > static_cast<uint32_t>(QpState::kErr)) {
    return Status(EINVAL);
  }
  const QpState to = (mask & kAttrState) ? static_cast<QpState>(attr.qp_state) : qp.state;
  const Status allowed = check_transition(qp.type, qp.state, to, mask);
  if (!allowed.ok()) return allowed;
  if (!values_valid(engine, attr, mask)) return Status(EINVAL);
  const bool leaves_sqd = qp.state == QpState::kSqd && to == QpState::kRts;
  if (leaves_sqd && !requester::drained(qp)) return Status(EINVAL);

  if (mask & kAttrAv) {
    const Result<wire::Path> path = resolve(engine, address_of(attr));
    if (!path.ok()) return path.status();
    qp.path = *path;
    copy_av(qp.attr, attr);
  }
  copy_given(qp.attr, attr, mask);
  if (mask & (kAttrAv | kAttrDestQpn)) {
    qp.path.source_port = wire::udp_source_port(qp.path.flow_label, qp.qpn, qp.attr.dest_qp_num);
  }
  if (mask & kAttrPathMtu) qp.mtu = mtu_bytes(static_cast<PathMtu>(attr.path_mtu));
  if (mask & (kAttrRetryCnt | kAttrRnrRetry)) {
    qp.req.retries_left = qp.attr.retry_cnt;
    qp.req.rnr_retries_left = qp.attr.rnr_retry;
  }
  if (mask & kAttrMaxDestRdAtomic) {
    qp.resp.read_valid = std::min(qp.resp.read_valid, attr.max_dest_rd_atomic);
  }
  if (to == QpState::kSqd && qp.state != QpState::kSqd && !(mask & kAttrEnSqdAsyncNotify)) {
    qp.attr.en_sqd_async_notify = 0;
  }
  enter(engine, qp, to);
  report_drained(engine, qp);
  return kOk;
}

abi::QpAttr query(const Qp& qp) {
  abi::QpAttr attr = qp.attr;
  attr.qp_state = attr.cur_qp_state = static_cast<uint32_t>(qp.state);
  attr.sq_draining = qp.state == QpState::kSqd && !requester::drained(qp) ? 1 : 0;
  // The PSNs as they stand, which is what a query is for.
  if (qp.state != QpState::kReset && qp.state != QpState::kInit) {
    attr.rq_psn = qp.resp.at.epsn.value();
    if (qp.state != QpState::kRtr) attr.sq_psn = qp.req.next_psn.value();
  }
  return attr;
}

}  // namespace verbena::qp_control
