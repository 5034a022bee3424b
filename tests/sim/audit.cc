#include "tests/sim/audit.h"

#include <algorithm>
#include <set>

#include "stack/wire/syndrome.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kIpv4At = 14, kUdpAt = 34, kBthAt = 42;

std::string differs(const std::string& name, uint64_t have, uint64_t want) {
  return name + " is " + std::to_string(have) + ", not " + std::to_string(want);
}

uint32_t sum_words(const uint8_t* bytes, uint32_t count) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i += 2) {
    sum += uint32_t{bytes[i]} << 8 | (i + 1 < count ? bytes[i + 1] : 0U);
  }
  return sum;
}
uint32_t fold(uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

// The bits that are not as they were sent: what was turned twice is as it was.
std::set<uint32_t> damaged_bits(const Frame& frame) {
  std::set<uint32_t> bits;
  for (uint32_t i = 0; i < frame.flips; ++i) {
    if (!bits.insert(frame.flipped[i]).second) bits.erase(frame.flipped[i]);
  }
  return bits;
}

enum class Damage : uint8_t {
  kNone,     // or nothing that a device can notice
  kNoticed,  // by the checks before the queue pair is looked for
  kStray,    // whole, but meant for another station
};

// What the ICRC does not cover: addresses of Ethernet, ToS, TTL and checksum of IPv4, the checksum
// of UDP, the bits beside the destination QPN (Annex A17.3.3). The two checksums speak for
// themselves. Up to five turned bits are noticed by a CRC-32 in frames of this length, and more
// are missed once in 2^32.
Damage damage(const Frame& frame, const MacAddr& mac) {
  if (frame.truncated) return Damage::kNoticed;
  const auto bits = damaged_bits(frame);
  if (bits.empty()) return Damage::kNone;
  bool stray = false;
  for (const uint32_t bit : bits) {
    const uint32_t byte = bit / 8;
    const bool source_mac = byte >= 6 && byte < 12;
    const bool ip =
        byte == kIpv4At + 1 || byte == kIpv4At + 8 || byte == kIpv4At + 10 || byte == kIpv4At + 11;
    const bool udp = byte == kUdpAt + 6 || byte == kUdpAt + 7;
    const bool uncovered = source_mac || ip || udp || byte == kBthAt + 4;
    if (byte < 6) stray = true;
    if (byte >= 6 && !uncovered) return Damage::kNoticed;
  }
  if (stray && !std::equal(mac.bytes.begin(), mac.bytes.end(), frame.data.get())) {
    return Damage::kNoticed;
  }
  const uint8_t* ip = frame.data.get() + kIpv4At;
  if (fold(sum_words(ip, 20)) != 0xFFFF) return Damage::kNoticed;
  const uint8_t* udp = frame.data.get() + kUdpAt;
  const uint32_t udp_bytes = frame.bytes - kUdpAt;
  if ((udp[6] | udp[7]) != 0 &&
      fold(sum_words(ip + 12, 8) + 17 + udp_bytes + sum_words(udp, udp_bytes)) != 0xFFFF) {
    return Damage::kNoticed;
  }
  return stray ? Damage::kStray : Damage::kNone;
}

// Compares what a slice holds with what it must, and blanks it.
bool settle(Station& station, const Slice& slice, uint32_t pattern, Bytes bytes) {
  const uint64_t va = station.va(slice.offset);
  const auto range = station.memory.range(va, slice.bytes);
  bool right = true;
  switch (bytes) {
    case Bytes::kBlank:
      return true;  // seen with all the rest
    case Bytes::kData:
      right = station.memory.holds(va, slice.bytes, pattern);
      break;
    case Bytes::kReused:
      right = station.memory.holds(va, slice.bytes, reused(pattern));
      break;
    case Bytes::kUnknown:
      break;
  }
  std::fill(range.begin(), range.end(), kBlankByte);
  return right;
}

// An operation that was posted and never completed with success may have stored anything.
Bytes expected_at_target(const End& end, const OperationState& op, Bytes now) {
  const bool posted = static_cast<size_t>(&op - end.ops.data()) < end.posted;
  return now == Bytes::kBlank && posted ? Bytes::kUnknown : now;
}

std::string settle_sender(const World& world, const End& end, const OperationState& op) {
  const Operation& o = *op.op;
  const auto wrong = [&](const char* what) {
    return "operation " + std::to_string(o.number) + ": " + what;
  };
  if (end.world == &world) {
    const Bytes from = o.is_read() ? expected_at_target(end, op, op.from) : op.from;
    if (!settle(*world.station, o.from, o.pattern(), from))
      return wrong("its buffer was written to");
  }
  // What is read back belongs to its WRITE.
  if (!end.is_rc() || end.peer->world != &world || o.reads_back) return {};
  const Bytes remote = o.is_write() ? expected_at_target(end, op, op.remote) : op.remote;
  if (!settle(*world.station, o.remote, o.pattern(), remote)) {
    return wrong("its remote buffer was written to when it was done");
  }
  const Bytes receive = expected_at_target(end, op, op.receive);
  if (!settle(*world.station, o.receive, o.pattern(), receive)) {
    return wrong("its receive buffer was written to when it was done");
  }
  return {};
}

}  // namespace

std::string audit_memory(World& world, const std::vector<std::unique_ptr<End>>& ends) {
  Station& station = *world.station;
  const auto settle_buffers = [&](const std::vector<Buffer>& buffers) {
    return std::all_of(buffers.begin(), buffers.end(), [&](const Buffer& buffer) {
      // One that is posted and not completed may be in use.
      const bool open = buffer.posted && buffer.bytes == Bytes::kBlank;
      return settle(station, buffer.slice, buffer.pattern, open ? Bytes::kUnknown : buffer.bytes);
    });
  };
  if (!settle_buffers(world.shared))
    return "a shared receive buffer was written to when it was done";
  for (const auto& end : ends) {
    if (end == nullptr) continue;
    for (const OperationState& op : end->ops) {
      if (const auto wrong = settle_sender(world, *end, op); !wrong.empty()) return wrong;
    }
    if (end->world == &world && !settle_buffers(end->buffers)) {
      return "a receive buffer of a datagram was written to when it was done";
    }
  }
  const auto all = station.memory.range(station.va(0), station.memory.size());
  const auto stain =
      std::find_if(all.begin(), all.end(), [](uint8_t byte) { return byte != kBlankByte; });
  if (stain != all.end()) {
    return "byte " + std::to_string(stain - all.begin()) + " was written, where nothing belongs";
  }
  if (station.memory.out_of_range() != 0) return "memory outside of the region was asked for";
  return {};
}

// ---- Counters ----

void Tally::on_sent(const Frame& frame, const wire::ParsedPacket& packet, uint32_t mtu) {
  ++sent_pkts_;
  sent_bytes_ += frame.bytes;
  const OpcodeInfo& info = *packet.info;
  if (info.operation == verbena::Operation::kAcknowledge) {
    acks_ += syndrome_kind(packet.syndrome) == SyndromeKind::kAck;
    naks_ += syndrome_kind(packet.syndrome) == SyndromeKind::kNak;
  }
  if (info.is_response() || info.transport != Transport::kRc) return;
  uint32_t psns = 1;
  if (info.operation == verbena::Operation::kReadRequest) {
    psns = std::max(1U, (packet.dma_length + mtu - 1) / mtu);
  }
  const Psn end = packet.psn + psns;
  const auto [newest, first] = newest_sent_.try_emplace(packet.dest_qpn, end);
  if (first) return;
  if (packet.psn.before(newest->second)) ++again_;
  if (end.after(newest->second)) newest->second = end;
}

void Tally::on_delivered(const Frame& frame, const World& world) {
  ++rcvd_pkts_;
  rcvd_bytes_ += frame.bytes;
  if (!frame.truncated && frame.flips == 0) return;
  switch (damage(frame, world.station->device.config().mac)) {
    case Damage::kNone:
      return;
    case Damage::kNoticed:
      ++noticed_;
      return;
    case Damage::kStray:
      ++strays_;
      return;
  }
}

std::string NakOnce::on_sent(const wire::ParsedPacket& packet) {
  if (packet.info->operation != verbena::Operation::kAcknowledge) return {};
  // After an RNR NAK the responder may stand before what it has asked for.
  if (syndrome_kind(packet.syndrome) == SyndromeKind::kRnrNak) asked_.erase(packet.dest_qpn);
  if (packet.syndrome != nak_syndrome(NakCode::kPsnSequence)) return {};
  const auto [asked, first] = asked_.try_emplace(packet.dest_qpn, packet.psn);
  if (!first && asked->second == packet.psn) {
    return "PSN " + std::to_string(packet.psn.value()) + " was asked for twice";
  }
  asked->second = packet.psn;
  return {};
}

void NakOnce::on_delivered(const Frame& frame, const World& world) {
  if (asked_.empty()) return;
  const auto parsed = wire::parse({frame.data.get(), frame.bytes});
  const auto* packet = std::get_if<wire::ParsedPacket>(&parsed);
  if (packet == nullptr || packet->info->is_response()) return;
  for (const End* end : world.ends) {
    if (!end->is_rc() || end->qp->qpn() != packet->dest_qpn) continue;
    const auto asked = asked_.find(end->peer->qp->qpn());
    if (asked != asked_.end() && asked->second == packet->psn) asked_.erase(asked);
  }
}

std::string Tally::check_traffic(const DeviceStats& stats) const {
  if (stats.sent_pkts != sent_pkts_) return differs("sent_pkts", stats.sent_pkts, sent_pkts_);
  if (stats.sent_bytes != sent_bytes_) return differs("sent_bytes", stats.sent_bytes, sent_bytes_);
  if (stats.rcvd_pkts != rcvd_pkts_) return differs("rcvd_pkts", stats.rcvd_pkts, rcvd_pkts_);
  if (stats.rcvd_bytes != rcvd_bytes_) return differs("rcvd_bytes", stats.rcvd_bytes, rcvd_bytes_);
  if (stats.acks_sent != acks_) return differs("acks_sent", stats.acks_sent, acks_);
  if (stats.naks_sent != naks_) return differs("naks_sent", stats.naks_sent, naks_);
  if (stats.retransmitted_pkts != again_) {
    return differs("retransmitted_pkts", stats.retransmitted_pkts, again_);
  }
  return {};
}

std::string Tally::check_drops(const DeviceStats& stats, const World& world) const {
  const auto dropped = [&](DropReason reason) {
    return stats.dropped[static_cast<size_t>(reason)];
  };
  uint64_t damaged = 0;
  for (const DropReason reason :
       {DropReason::kTooShort, DropReason::kNotForUs, DropReason::kNotRoce,
        DropReason::kBadIpHeader, DropReason::kBadLength, DropReason::kBadUdpChecksum,
        DropReason::kBadIcrc, DropReason::kBadTransportVersion, DropReason::kUnknownOpcode}) {
    damaged += dropped(reason);
  }
  if (damaged != noticed_) return differs("the sum of drops of damaged packets", damaged, noticed_);
  for (const DropReason reason :
       {DropReason::kBadPkey, DropReason::kWrongTransport, DropReason::kWrongAddress,
        DropReason::kBadQkey, DropReason::kReservedSyndrome}) {
    if (dropped(reason) != 0) {
      return differs("drop_" + std::string(drop_reason_name(reason)), dropped(reason), 0);
    }
  }
  const auto any = [&](auto&& test) {
    return std::any_of(world.ends.begin(), world.ends.end(),
                       [&](const End* e) { return test(*e); });
  };
  if (dropped(DropReason::kUnknownQp) < strays_ ||
      (dropped(DropReason::kUnknownQp) != strays_ && !any([](const End& e) { return e.gone; }))) {
    return differs("drop_unknown_qp", dropped(DropReason::kUnknownQp), strays_);
  }
  if (dropped(DropReason::kQpState) != 0 && !any([](const End& e) { return e.broken || e.cut; })) {
    return differs("drop_qp_state", dropped(DropReason::kQpState), 0);
  }
  if (dropped(DropReason::kNoReceive) != 0 && !any([](const End& e) { return !e.is_rc(); })) {
    return differs("drop_no_receive", dropped(DropReason::kNoReceive), 0);
  }
  return {};
}

std::string Tally::check_completions(const DeviceStats& stats, const World& world) {
  const auto of = [](const uint64_t* counts, abi::WcStatus status) {
    return counts[static_cast<size_t>(status)];
  };
  const auto errors = [&](const uint64_t* counts) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < World::kStatuses; ++i) sum += counts[i];
    return sum - of(counts, abi::WcStatus::kWrFlush);
  };
  struct Row {
    const char* name;
    uint64_t have;
    uint64_t want;
  };
  const uint64_t* send = world.send_errors;
  const uint64_t* recv = world.recv_errors;
  const Row rows[] = {
      {"req_cqe_error", stats.req_cqe_error, errors(send)},
      {"req_cqe_flush_error", stats.req_cqe_flush_error, of(send, abi::WcStatus::kWrFlush)},
      {"resp_cqe_error", stats.resp_cqe_error, errors(recv)},
      {"resp_cqe_flush_error", stats.resp_cqe_flush_error, of(recv, abi::WcStatus::kWrFlush)},
      {"retry_exceeded_err", stats.retry_exceeded_err, of(send, abi::WcStatus::kRetryExc)},
      {"rnr_nak_retry_err", stats.rnr_nak_retry_err, of(send, abi::WcStatus::kRnrRetryExc)},
      {"req_remote_access_errors", stats.req_remote_access_errors,
       of(send, abi::WcStatus::kRemAccess)},
      {"req_remote_invalid_request", stats.req_remote_invalid_request,
       of(send, abi::WcStatus::kRemInvReq)},
      {"req_remote_operational_errors", stats.req_remote_operational_errors,
       of(send, abi::WcStatus::kRemOp)},
      {"resp_local_length_error", stats.resp_local_length_error, of(recv, abi::WcStatus::kLocLen)},
      {"cq_overruns", stats.cq_overruns, 0},
      {"cnp_received", stats.cnp_received, 0},
      {"rx_atomic_requests", stats.rx_atomic_requests, 0},
  };
  for (const Row& row : rows) {
    if (row.have != row.want) return differs(row.name, row.have, row.want);
  }
  // One may be found and then be flushed, because another before it failed.
  const uint64_t malformed =
      of(send, abi::WcStatus::kLocQpOp) + of(send, abi::WcStatus::kLocLen) - world.bad_handles;
  if (stats.malformed_wqe < malformed || stats.malformed_wqe > world.malformed) {
    return differs("malformed_wqe", stats.malformed_wqe, malformed);
  }
  return {};
}

// Each message is counted once by the responder, however often it comes; unless memory that was not
// ready made it start again.
std::string Tally::check_messages(const DeviceStats& stats, const World& world) {
  uint64_t least[3] = {};
  uint64_t most[3] = {};
  for (const End* end : world.ends) {
    if (!end->is_rc()) continue;
    const End& sender = *end->peer;
    for (uint32_t i = 0; i < sender.posted; ++i) {
      const Operation& o = *sender.ops[i].op;
      const int kind = o.is_send() ? 0 : o.is_write() ? 1 : 2;
      least[kind] += sender.ops[i].succeeded;
      ++most[kind];
    }
  }
  for (const End* end : world.ends) {
    if (!end->is_rc()) least[0] += end->datagrams, most[0] += end->datagrams;
  }
  const uint64_t have[] = {stats.rx_send_requests, stats.rx_write_requests, stats.rx_read_requests};
  static constexpr const char* kNames[] = {"rx_send_requests", "rx_write_requests",
                                           "rx_read_requests"};
  for (int i = 0; i < 3; ++i) {
    if (have[i] < least[i]) return differs(kNames[i], have[i], least[i]);
    const bool again = stats.dropped[static_cast<size_t>(DropReason::kMemoryLater)] != 0;
    if (have[i] > most[i] && !again) return differs(kNames[i], have[i], most[i]);
  }
  return {};
}

std::string Tally::check(const DeviceStats& stats, const World& world) const {
  std::string wrong = check_traffic(stats);
  if (wrong.empty()) wrong = check_drops(stats, world);
  if (wrong.empty()) wrong = check_completions(stats, world);
  if (wrong.empty()) wrong = check_messages(stats, world);
  return wrong;
}

// ---- What is left ----

namespace {

std::string destroy_all(World& world) {
  Device& device = world.station->device;
  const ClientId client = world.station->client;
  bool done = true;
  for (End* end : world.ends) {
    if (!end->gone) done &= device.destroy_qp(client, end->qp->qpn()).ok();
    end->gone = true;
  }
  if (!done) return "a queue pair could not be destroyed";
  for (const AhId ah : world.ahs) done &= ah == 0 || device.destroy_ah(client, ah).ok();
  if (!done) return "an address handle could not be destroyed";
  if (world.srq != nullptr) done &= device.destroy_srq(client, world.srq->id()).ok();
  if (!done) return "a shared receive queue could not be destroyed";
  std::set<CqId> cqs = {world.station->cq->id()};
  for (const End* end : world.ends) cqs.insert(end->cq->id());
  for (const CqId cq : cqs) done &= device.destroy_cq(client, cq).ok();
  if (!done) return "a completion queue could not be destroyed";
  done &= device.dereg_mr(client, world.station->keys.handle).ok();
  done &= device.dereg_mr(client, world.no_access.handle).ok();
  if (!done) return "a memory region could not be deregistered";
  return device.dealloc_pd(client, world.station->pd).ok()
             ? ""
             : "a protection domain could not be freed";
}

}  // namespace

std::string audit_leaks(World& world) {
  Device& device = world.station->device;
  if (device.has_work()) return "work is left in a quiet device";
  if (device.next_timeout() != kNever) return "a timer is left in a quiet device";
  if (const auto wrong = destroy_all(world); !wrong.empty()) return wrong;
  const ClientId client = world.station->client;
  const ClientUsage usage = device.usage(client);
  if (usage.pds + usage.mrs + usage.cqs + usage.qps + usage.srqs + usage.ahs != 0) {
    return "objects are left when all were destroyed";
  }
  // Every place in a table is free again.
  for (uint32_t i = 0; i < device.config().max_pd; ++i) {
    if (!device.alloc_pd(client).ok()) return "a protection domain is lost";
  }
  device.detach_client(client);
  if (device.has_work() || device.next_timeout() != kNever) return "something is left of a client";
  return {};
}

}  // namespace verbena::sim
