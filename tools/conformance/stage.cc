#include "tools/conformance/stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "stack/qp/qp_state.h"
#include "tools/conformance/frame_edit.h"
#include "tools/conformance/names.h"
#include "tools/conformance/packets.h"
#include "tools/conformance/script.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMostMemory = uint64_t{1} << 30;
constexpr uint32_t kMaxSge = 16;
// What has no place of its own in the station's memory.
constexpr size_t kNoPlace = SIZE_MAX;
// A bit by which a number that nothing has is told from one that the engine happened to choose.
constexpr Key kOtherKey = 0x80000000;
constexpr Qpn kOtherQpn = 0x800000;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t buffer_bytes(const RecvSection& recv, const trace::Capture& capture) {
  if (recv.bytes != 0 || !recv.expect) return recv.bytes;
  return natural_size(*recv.expect, capture);
}

uint64_t buffer_bytes(const SendSection& send, const trace::Capture& capture) {
  if (send.bytes != 0) return send.bytes;
  return natural_size(send.expect ? *send.expect : send.data, capture);
}

DeviceConfig config_of(const Case& c) {
  DeviceConfig config = sim::small_config(1);
  config.mac = c.device.mac;
  config.gids = {c.device.gid};
  config.neighbors.clear();
  for (const QpSection& qp : c.qps) config.neighbors.push_back({qp.peer.gid, qp.peer.mac});
  for (const SendSection& send : c.sends) {
    if (send.to) config.neighbors.push_back({send.to->gid, send.to->mac});
  }
  config.active_mtu = c.device.active_mtu;
  config.window_packets = c.device.window_packets;
  config.ack_every_packets = c.device.ack_every_packets;
  const auto more = [](uint32_t& limit, size_t wanted) {
    limit = std::max(limit, static_cast<uint32_t>(wanted) + 2);
  };
  more(config.max_qp, c.qps.size());
  more(config.max_cq, 2 * c.qps.size());
  more(config.max_mr, c.memories.size());
  more(config.max_ah, c.sends.size());
  more(config.max_qp_wr, std::max(c.sends.size(), c.recvs.size()));
  more(config.max_cqe, std::max(c.sends.size(), c.recvs.size()));
  return config;
}

template <typename Sections>
uint32_t count_of(const Sections& sections, size_t qp) {
  return static_cast<uint32_t>(std::count_if(
      sections.begin(), sections.end(), [qp](const auto& section) { return section.qp == qp; }));
}

}  // namespace

uint64_t Stage::memory_bytes(const Case& c, const trace::Capture& capture) {
  uint64_t bytes = kAlignment;
  for (const MemorySection& memory : c.memories) bytes += aligned(memory.bytes);
  for (const RecvSection& recv : c.recvs) bytes += aligned(buffer_bytes(recv, capture));
  for (const SendSection& send : c.sends) bytes += aligned(buffer_bytes(send, capture));
  if (bytes <= kMostMemory) return bytes;
  throw tools::CommandError(
      fmt::format("{}: its regions and buffers take {} bytes", c.file.string(), bytes),
      "at most 1 GiB in all");
}

Stage::Stage(const Case& c, const trace::Capture& capture, Timestamp now)
    : case_(c), capture_(capture), station_(config_of(c), memory_bytes(c, capture)) {
  lay_out();
  register_memory();
  for (size_t i = 0; i < c.qps.size(); ++i) {
    add_queues(i);
    bring_up(i, now);
  }
  const auto all = station_.memory.range(station_.memory.base(), station_.memory.size());
  expected_.assign(all.begin(), all.end());
}

std::string Stage::qp_name(size_t index) const {
  const auto& qpn = case_.qps[index].qpn;
  return qpn ? fmt::format("QP 0x{:x}", *qpn) : fmt::format("[[qp]] {}", index + 1);
}

size_t Stage::add_place(std::string name, uint64_t bytes, bool compared) {
  const uint64_t offset =
      places_.empty() ? 0 : places_.back().offset + aligned(places_.back().bytes);
  places_.push_back({std::move(name), offset, bytes, compared});
  return places_.size() - 1;
}

size_t Stage::add_buffer(const char* kind, size_t index, uint64_t bytes, bool compared) {
  if (bytes == 0) return kNoPlace;
  return add_place(fmt::format("the buffer of [[{}]] {}", kind, index + 1), bytes, compared);
}

void Stage::lay_out() {
  uint8_t* const memory = station_.memory.at(station_.memory.base());
  for (size_t i = 0; i < case_.memories.size(); ++i) {
    const MemorySection& section = case_.memories[i];
    regions_.push_back({add_place(fmt::format("[[memory]] {}", i + 1), section.bytes, true), {}});
    for (const Piece& piece : section.contents) {
      put(memory, regions_[i].place, piece.offset, piece.data);
    }
  }
  for (size_t i = 0; i < case_.recvs.size(); ++i) {
    const RecvSection& recv = case_.recvs[i];
    recv_places_.push_back(
        add_buffer("recv", i, buffer_bytes(recv, capture_), recv.expect.has_value()));
    if (recv_places_[i] != kNoPlace && case_.qps[recv.qp].type == QpType::kUd) {
      places_[recv_places_[i]].skipped = kGrhBytes;
    }
  }
  for (size_t i = 0; i < case_.sends.size(); ++i) {
    const SendSection& send = case_.sends[i];
    const bool is_read = send.opcode == abi::WrOpcode::kRead;
    send_places_.push_back(
        add_buffer("send", i, buffer_bytes(send, capture_), !is_read || send.expect.has_value()));
    if (send_places_[i] != kNoPlace && !is_read) put(memory, send_places_[i], 0, send.data);
  }
}

void Stage::put(uint8_t* memory, size_t index, uint64_t offset, const Data& data) const {
  const Place& place = places_[index];
  if (offset >= place.bytes) return;
  const uint64_t room = place.bytes - offset;
  const uint64_t own = natural_size(data, capture_);
  const std::vector<uint8_t> bytes = resolve(data, own != 0 ? std::min(own, room) : room, capture_);
  std::copy(bytes.begin(), bytes.end(), memory + place.offset + offset);
}

void Stage::register_memory() {
  other_pd_ = *station_.device.alloc_pd(station_.client);
  for (size_t i = 0; i < case_.memories.size(); ++i) {
    const MemorySection& memory = case_.memories[i];
    const Place& place = places_[regions_[i].place];
    const MrSpec spec{memory.other_pd ? other_pd_ : station_.pd, memory.access,
                      station_.va(place.offset), memory.bytes, memory.va};
    const auto keys = station_.device.reg_mr(station_.client, spec);
    if (!keys.ok()) {
      throw tools::CommandError(
          fmt::format("{}: the device does not register {}", case_.file.string(), place.name),
          "look at its va, bytes and access");
    }
    regions_[i].keys = *keys;
  }
}

void Stage::add_queues(size_t index) {
  const uint32_t sends = count_of(case_.sends, index);
  const uint32_t recvs = count_of(case_.recvs, index);
  Queues queues;
  queues.send_cq = &station_.add_cq(sends + 1);
  queues.recv_cq = &station_.add_cq(recvs + 1);
  sim::QpOptions options;
  options.type = case_.qps[index].type;
  options.max_send_wr = sends + 1;
  options.max_recv_wr = recvs + 1;
  options.max_send_sge = options.max_recv_sge = kMaxSge;
  queues.qp = &station_.add_qp(options, queues.send_cq, queues.recv_cq);
  queues_.push_back(std::move(queues));
}

void Stage::step(const sim::ClientQp& qp, const sim::Step& step, const QpSection& section,
                 Timestamp now) {
  if (step.attr.qp_state > static_cast<uint32_t>(section.state)) return;
  if (station_.modify(qp, step.attr, step.mask, now).ok()) return;
  throw tools::CommandError(
      fmt::format("{}: the device does not bring {} to {}", case_.file.string(),
                  qp_name(queues_.size() - 1), word_of(kQpStateNames, step.attr.qp_state)),
      "look at its path_mtu, which must not be above the device's active_mtu, and its peer");
}

void Stage::bring_up_rc(const QpSection& section, const sim::ClientQp& qp, Timestamp now) {
  sim::ConnectOptions options;
  options.mtu = section.path_mtu;
  options.sq_psn = section.sq_psn;
  options.rq_psn = section.rq_psn;
  options.access = section.access;
  options.max_rd_atomic = section.max_rd_atomic;
  options.max_dest_rd_atomic = section.max_dest_rd_atomic;
  options.min_rnr_timer = section.min_rnr_timer;
  options.timeout = section.timeout;
  options.retry_cnt = section.retry_cnt;
  options.rnr_retry = section.rnr_retry;
  step(qp, sim::init_step(options), section, now);
  sim::Step rtr = sim::rtr_step(section.peer.gid, section.peer.qpn, options);
  rtr.attr.ah_traffic_class = section.traffic_class;
  rtr.attr.ah_flow_label = section.flow_label;
  step(qp, rtr, section, now);
  step(qp, sim::rts_step(options), section, now);
}

void Stage::bring_up_ud(const QpSection& section, const sim::ClientQp& qp, Timestamp now) {
  abi::QpAttr attr{};
  attr.qkey = section.qkey;
  attr.sq_psn = section.sq_psn;
  attr.port_num = 1;
  attr.qp_state = static_cast<uint32_t>(QpState::kInit);
  step(qp, {attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey}, section, now);
  attr.qp_state = static_cast<uint32_t>(QpState::kRtr);
  step(qp, {attr, kAttrState}, section, now);
  attr.qp_state = static_cast<uint32_t>(QpState::kRts);
  step(qp, {attr, kAttrState | kAttrSqPsn}, section, now);
}

void Stage::bring_up(size_t index, Timestamp now) {
  const QpSection& section = case_.qps[index];
  if (section.type == QpType::kUd) return bring_up_ud(section, *queues_[index].qp, now);
  bring_up_rc(section, *queues_[index].qp, now);
}

Key Stage::key_for_engine(Key key) const {
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (case_.memories[i].key == key) return regions_[i].keys.rkey;
  }
  const auto taken = [&](Key candidate) {
    return candidate == station_.keys.rkey ||
           std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
             return region.keys.rkey == candidate || region.keys.lkey == candidate;
           });
  };
  return taken(key) ? key ^ kOtherKey : key;
}

std::vector<uint8_t> Stage::for_engine(std::span<const uint8_t> frame) const {
  FrameEdit edit;
  if (const auto qpn = dest_qpn_of(frame)) {
    edit.dest_qpn = *qpn;
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].qp->qpn() == *qpn) edit.dest_qpn = *qpn ^ kOtherQpn;
    }
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (case_.qps[i].qpn == *qpn) edit.dest_qpn = queues_[i].qp->qpn();
    }
  }
  const auto parsed = wire::parse(frame);
  if (const auto* packet = std::get_if<wire::ParsedPacket>(&parsed)) {
    if (packet->info->has_reth || packet->info->has_atomic_eth) {
      edit.rkey = key_for_engine(packet->rkey);
    }
    if (packet->info->has_ieth) edit.invalidate_rkey = key_for_engine(packet->invalidate_rkey);
  }
  return edited(frame, edit);
}

wire::ParsedPacket Stage::for_capture(wire::ParsedPacket packet, size_t qp) const {
  const QpSection& section = case_.qps[qp];
  if (packet.info->has_deth && section.qpn) packet.source_qpn = *section.qpn;
  packet.msn = (packet.msn + section.msn) & Psn::kMask;
  return packet;
}

std::optional<size_t> Stage::sender_of(const wire::ParsedPacket& packet) const {
  for (size_t i = 0; i < queues_.size(); ++i) {
    const QpSection& section = case_.qps[i];
    if (section.type == QpType::kUd) {
      if (packet.info->has_deth && packet.source_qpn == queues_[i].qp->qpn()) return i;
    } else if (packet.info->transport == Transport::kRc && packet.dest_qpn == section.peer.qpn &&
               packet.dest_gid == section.peer.gid) {
      return i;
    }
  }
  return std::nullopt;
}

std::vector<abi::Sge> Stage::sges_of(const std::vector<SgeSection>& sges, size_t place) const {
  std::vector<abi::Sge> list;
  for (const SgeSection& sge : sges) list.push_back({sge.va, sge.bytes, key_for_engine(sge.lkey)});
  if (place != kNoPlace) {
    list.push_back(
        station_.sge(places_[place].offset, static_cast<uint32_t>(places_[place].bytes)));
  }
  return list;
}

void Stage::post_recv(size_t index, Timestamp now) {
  const RecvSection& recv = case_.recvs[index];
  Queues& queues = queues_[recv.qp];
  queues.recvs.push_back(index);
  queues.qp->post_recv(sges_of(recv.sges, recv_places_[index]));
  queues.qp->ring_if_flushing(now);
}

AhId Stage::address_of(const SendSection& send) {
  if (!send.to) return 0;
  const QpSection& qp = case_.qps[send.qp];
  abi::CreateAh wanted{};
  wanted.pd = station_.pd;
  wanted.is_global = 1;
  wanted.port_num = 1;
  wanted.traffic_class = qp.traffic_class;
  wanted.flow_label = qp.flow_label;
  std::copy(send.to->gid.bytes.begin(), send.to->gid.bytes.end(), wanted.dgid);
  return *station_.device.create_ah(station_.client, wanted);
}

void Stage::post_send(size_t index, Timestamp now) {
  const SendSection& send = case_.sends[index];
  Queues& queues = queues_[send.qp];
  queues.sends.push_back(index);
  sim::SendRequest request;
  request.opcode = send.opcode;
  request.flags = send.flags;
  request.sges = sges_of(send.sges, send_places_[index]);
  request.imm_wire = __builtin_bswap32(send.imm);
  request.rkey = send.rkey;
  request.remote_va = send.remote_va;
  if (send.to) {
    request.ah = address_of(send);
    request.remote_qpn = send.to->qpn;
    request.remote_qkey = send.qkey;
  }
  queues.qp->post_send(request);
  queues.qp->ring(now);
}

void Stage::store(size_t index) {
  const StoreSection& store = case_.stores[index];
  const size_t place = regions_[store.memory].place;
  put(station_.memory.at(station_.memory.base()), place, store.piece.offset, store.piece.data);
  put(expected_.data(), place, store.piece.offset, store.piece.data);
}

void Stage::modify(size_t index, Timestamp now) {
  const ModifySection& modify = case_.modifies[index];
  Queues& queues = queues_[modify.qp];
  if (!station_.set_state(*queues.qp, modify.state, now).ok()) {
    throw tools::CommandError(
        fmt::format("{}: the device does not move {} to {}", case_.file.string(),
                    qp_name(modify.qp), word_of_enum(kQpStateNames, modify.state)),
        "a transition that a queue pair in its state has");
  }
  if (modify.state != QpState::kReset) return;
  queues.qp->reset();
  queues.sends.clear();
  queues.recvs.clear();
}

void Stage::take_events() {
  while (const auto event = station_.device.poll_event()) events_.push_back(*event);
}

}  // namespace verbena::conformance
