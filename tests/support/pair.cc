#include "tests/support/pair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/qp/qp_state.h"

namespace verbena::test {
namespace {

constexpr size_t kBurst = 32;
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

Station::Station(const DeviceConfig& config, size_t memory_bytes)
    : memory(kBase, memory_bytes), device(config), client(*device.attach_client(memory)) {
  pd = *device.alloc_pd(client);
  keys = *device.reg_mr(client, {pd, kAllAccess, memory.base(), memory_bytes, memory.base()});
  cq = &add_cq(1024);
}

ClientCq& Station::add_cq(uint32_t cqe, bool channel, uint64_t user_handle) {
  cqs_.push_back(std::make_unique<ClientCq>(device, client, cqe, channel, user_handle));
  return *cqs_.back();
}

ClientQp& Station::add_qp(const QpOptions& options, ClientCq* send_cq, ClientCq* recv_cq) {
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
  qps_.push_back(std::make_unique<ClientQp>(device, client, pd, for_send, for_recv, limits));
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

::verbena::test::Step init_step(const ConnectOptions& options) {
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

void Station::connect(const ClientQp& qp, const Gid& gid, Qpn peer_qpn,
                      const ConnectOptions& options, Timestamp now, QpState until) {
  const Step steps[] = {init_step(options), rtr_step(gid, peer_qpn, options), rts_step(options)};
  for (const Step& step : steps) {
    if (step.attr.qp_state > static_cast<uint32_t>(until)) break;
    ASSERT_EQ(modify(qp, step.attr, step.mask, now).error(), 0) << "to " << step.attr.qp_state;
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

// Frames are built in heap buffers of exactly the size that was asked for.
class Fabric::Sink : public TxSink {
 public:
  explicit Sink(Fabric& fabric) : fabric_(fabric), left_(fabric.sink_capacity) {}

  bool allocate(uint32_t bytes, TxFrame& frame) override {
    EXPECT_LE(bytes, kMaxFrameBytes);
    if (left_ == 0) return false;
    --left_;
    auto* buffer = new std::vector<uint8_t>(bytes);
    frame.data = buffer->data();
    frame.handle = buffer;
    return true;
  }
  void commit(const TxFrame& frame, uint32_t bytes) override {
    auto* buffer = static_cast<std::vector<uint8_t>*>(frame.handle);
    EXPECT_EQ(bytes, buffer->size());
    fabric_.take(std::move(*buffer));
    delete buffer;
  }
  void release(const TxFrame& frame) override {
    ++left_;
    delete static_cast<std::vector<uint8_t>*>(frame.handle);
  }

 private:
  Fabric& fabric_;
  uint32_t left_;
};

Station& Fabric::add(const DeviceConfig& config, size_t memory_bytes) {
  stations_.push_back(std::make_unique<Station>(config, memory_bytes));
  return *stations_.back();
}

void Fabric::inject(size_t to, std::vector<uint8_t> frame, DurationNs delay) {
  const Timestamp at = now + delay;
  const auto later = std::upper_bound(in_flight_.begin(), in_flight_.end(), at,
                                      [](Timestamp t, const InFlight& f) { return t < f.at; });
  in_flight_.insert(later, {at, to, std::move(frame)});
}

void Fabric::take(std::vector<uint8_t> frame) {
  const auto packet = parse_good(frame);
  ASSERT_TRUE(packet) << "a device sent a broken frame";
  if (record) sent.push_back(frame);
  size_t to = 0;
  while (to < size() && station(to).device.config().mac != packet->dest_mac) ++to;
  if (to == size()) return;
  const Fate fate = filter ? filter(*packet) : Fate{};
  if (fate.drop) return;
  if (fate.corrupt) frame[frame.size() - 1 - packet->psn.value() % 12] ^= 0x10;
  for (uint32_t copy = 1; copy < fate.copies; ++copy) inject(to, frame, fate.delay);
  inject(to, std::move(frame), fate.delay);
}

bool Fabric::deliver_due() {
  bool any = false;
  while (!in_flight_.empty() && in_flight_.front().at <= now) {
    // A burst is what is due for one device without a break.
    std::vector<InFlight> burst;
    const size_t to = in_flight_.front().to;
    while (burst.size() < kBurst && !in_flight_.empty() && in_flight_.front().at <= now &&
           in_flight_.front().to == to) {
      burst.push_back(std::move(in_flight_.front()));
      in_flight_.pop_front();
    }
    std::vector<RxFrame> frames;
    for (const InFlight& f : burst) {
      frames.push_back({f.frame.data(), static_cast<uint32_t>(f.frame.size())});
    }
    Sink sink(*this);
    station(to).device.on_burst(frames, now, sink);
    any = true;
  }
  return any;
}

bool Fabric::fire_timers() {
  bool any = false;
  for (auto& s : stations_) {
    if (s->device.next_timeout() > now) continue;
    s->device.on_timeout(now);
    any = true;
  }
  return any;
}

bool Fabric::poll_all() {
  bool any = false;
  for (auto& s : stations_) {
    Sink sink(*this);
    any |= s->device.poll(now, sink, poll_budget) != 0;
    while (const auto event = s->device.poll_event()) s->events.push_back(*event);
  }
  return any;
}

bool Fabric::step() {
  const bool delivered = deliver_due();
  const bool fired = fire_timers();
  const bool polled = poll_all();
  return delivered || fired || polled;
}

Timestamp Fabric::next_time() const {
  Timestamp next = in_flight_.empty() ? kNever : in_flight_.front().at;
  for (const auto& s : stations_) {
    next = std::min(next, s->device.next_timeout());
    // Work that could not be done just now: a full sink, or memory that is not ready.
    if (s->device.has_work()) next = std::min(next, now + 1000);
  }
  return next;
}

bool Fabric::drive_until(Timestamp limit) {
  for (uint32_t steps = 0; steps < 1'000'000; ++steps) {
    if (step()) continue;
    const Timestamp next = next_time();
    if (next == kNever) return true;
    if (next > limit) {
      now = limit;
      return false;
    }
    now = std::max(now, next);
  }
  ADD_FAILURE() << "a million steps without coming to rest";
  return false;
}

void Fabric::drive() {
  EXPECT_TRUE(drive_bounded(3'600'000'000'000)) << "not idle after an hour";
}

size_t Fabric::count(const Expect& expected) const {
  return static_cast<size_t>(std::count_if(sent.begin(), sent.end(), [&](const auto& frame) {
    return mismatch(expected, *parse_good(frame)).empty();
  }));
}

Pair::Pair(const ConnectOptions& connect, const QpOptions& options)
    : a(add(small_config(1))),
      b(add(small_config(2))),
      qa(a.add_qp(options)),
      qb(b.add_qp(options)) {
  ConnectOptions back = connect;
  back.sq_psn = connect.rq_psn;
  back.rq_psn = connect.sq_psn;
  a.connect(qa, b.device.config().gids[0], qb.qpn(), connect, now);
  b.connect(qb, a.device.config().gids[0], qa.qpn(), back, now);
}

}  // namespace verbena::test
