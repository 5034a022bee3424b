#include "tools/trace/flows.h"

#include <algorithm>
#include <compare>
#include <map>
#include <tuple>
#include <unordered_map>

#include "stack/wire/emit.h"
#include "tools/trace/cm.h"

namespace verbena::trace {
namespace {

constexpr Qpn kGsiQpn = 1;

struct FlowKey {
  Gid source;
  Gid dest;
  Qpn dest_qpn = 0;
  Transport transport = Transport::kRc;
  auto operator<=>(const FlowKey&) const = default;
};

FlowKey key_of(const wire::ParsedPacket& packet) {
  return {packet.source_gid, packet.dest_gid, packet.dest_qpn, packet.info->transport};
}

struct Flow {
  FlowKey key;
  MacAddr source_mac;
  MacAddr dest_mac;
  uint16_t source_port = 0;
  uint32_t direction = 0;  // a number for (key.source, key.dest)
  std::optional<Psn> first_request;
  std::optional<Psn> first_response;
  Index first_packet = kNoIndex;
  Index first_request_packet = kNoIndex;

  Index partner = kNoIndex;  // the flow the other way; itself for a QP connected to itself
  Pairing pairing = Pairing::kOneSided;
  std::optional<Qpn> source_qpn;  // known without a partner, from the connection manager
  Index connection = kNoIndex;
  uint8_t side = 0;  // who sends it

  [[nodiscard]] bool loops() const { return key.source == key.dest; }
};

// Two flows and how many responses of the second answer requests of the first.
struct Candidate {
  Index requests = kNoIndex;
  Index responses = kNoIndex;
  uint64_t score = 0;
};

class Pairer {
 public:
  explicit Pairer(Trace& trace) : trace_(trace) {}

  void run() {
    collect_flows();
    pair_by_cm();
    pair_by_psn();
    pair_by_port();
    pair_leftovers();
    make_connections();
  }

 private:
  using Directions = std::map<std::pair<Gid, Gid>, uint32_t>;

  void collect_flows();
  void add_to_flow(Index index);
  uint32_t direction(const Gid& source, const Gid& dest);
  [[nodiscard]] Index flow_at(const FlowKey& key) const;
  bool pair(Index a, Index b, Pairing how);
  [[nodiscard]] bool same_port(Index a, Index b) const;
  [[nodiscard]] bool port_of_these(Index a, Index b) const;
  void pair_by_cm();
  void join_by_cm(const wire::ParsedPacket& rep, Qpn requester, Qpn responder, Transport transport);
  void pair_by_psn();
  [[nodiscard]] std::map<std::pair<Index, Index>, uint64_t> count_answers() const;
  void pair_by_port();
  void pair_leftovers();
  [[nodiscard]] bool may_be_one(const Flow& a, const Flow& b) const;
  [[nodiscard]] std::map<std::pair<uint32_t, Transport>, std::vector<Index>> unpaired() const;
  void make_connections();
  void make_connection(Index first);
  void attach_datagram(Index index);
  void note_ends();
  void attach_cnp(Index index);
  [[nodiscard]] uint8_t side_of(const TracedPacket& traced, const Flow& flow) const;
  Index new_connection(Service service, Pairing pairing);

  Trace& trace_;
  std::vector<Flow> flows_;
  std::map<FlowKey, Index> by_key_;
  Directions directions_;
  std::vector<Index> flow_of_;  // by packet
  // Datagrams: the two ends, ordered, and the connection.
  using End = std::pair<Gid, Qpn>;
  std::map<std::pair<End, End>, Index> datagrams_;
  // A queue pair and its peer's address -> the connection: where CNPs belong.
  std::map<std::tuple<Gid, Qpn, Gid>, Index> by_ends_;
};

bool connected(Transport transport) {
  return transport == Transport::kRc || transport == Transport::kUc;
}

void Pairer::collect_flows() {
  flow_of_.assign(trace_.packets.size(), kNoIndex);
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    if (trace_.packets[i].good()) add_to_flow(i);
  }
  // A broken frame's own headers may be what is broken: it joins a flow, and begins one only where
  // nothing good was seen between the two hosts.
  const Directions good = directions_;
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    const TracedPacket& traced = trace_.packets[i];
    if (!traced.packet || traced.good()) continue;
    const wire::ParsedPacket& packet = *traced.packet;
    if (const Index flow = flow_at(key_of(packet)); flow != kNoIndex) {
      flow_of_[i] = flow;
      flows_[flow].first_packet = std::min(flows_[flow].first_packet, i);
    } else if (!good.contains({packet.source_gid, packet.dest_gid}) &&
               !good.contains({packet.dest_gid, packet.source_gid})) {
      add_to_flow(i);
    }
  }
}

void Pairer::add_to_flow(Index index) {
  const wire::ParsedPacket& packet = *trace_.packets[index].packet;
  if (!connected(packet.info->transport)) return;
  const auto [found, is_new] =
      by_key_.try_emplace(key_of(packet), static_cast<Index>(flows_.size()));
  if (is_new) {
    Flow flow;
    flow.key = found->first;
    flow.source_mac = packet.source_mac;
    flow.dest_mac = packet.dest_mac;
    flow.source_port = packet.source_port;
    flow.direction = direction(packet.source_gid, packet.dest_gid);
    flow.first_packet = index;
    flows_.push_back(flow);
  }
  flow_of_[index] = found->second;
  Flow& flow = flows_[found->second];
  if (packet.info->is_response()) {
    if (!flow.first_response) flow.first_response = packet.psn;
  } else if (!flow.first_request) {
    flow.first_request = packet.psn;
    flow.first_request_packet = index;
  }
}

uint32_t Pairer::direction(const Gid& source, const Gid& dest) {
  const auto next = static_cast<uint32_t>(directions_.size());
  return directions_.try_emplace({source, dest}, next).first->second;
}

Index Pairer::flow_at(const FlowKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? kNoIndex : found->second;
}

bool Pairer::pair(Index a, Index b, Pairing how) {
  if (flows_[a].partner != kNoIndex || flows_[b].partner != kNoIndex) return false;
  flows_[a].partner = b;
  flows_[b].partner = a;
  flows_[a].pairing = flows_[b].pairing = how;
  return true;
}

bool Pairer::same_port(Index a, Index b) const {
  return flows_[a].source_port == flows_[b].source_port;
}

// Linux drivers and this project make the port from the two QPNs, when no flow label is asked for.
bool Pairer::port_of_these(Index a, Index b) const {
  return same_port(a, b) &&
         flows_[a].source_port ==
             wire::udp_source_port(0, flows_[a].key.dest_qpn, flows_[b].key.dest_qpn);
}

void Pairer::pair_by_cm() {
  struct Request {
    Qpn qpn;
    Gid from;
    Gid to;
  };
  std::unordered_map<uint32_t, Request> requests;  // by the requester's communication id
  for (const TracedPacket& traced : trace_.packets) {
    if (!traced.good() || traced.packet->dest_qpn != kGsiQpn) continue;
    const wire::ParsedPacket& packet = *traced.packet;
    const std::optional<CmMessage> message = parse_cm(packet.payload);
    if (!message || !message->qpn) continue;
    if (message->attribute == CmAttribute::kReq) {
      requests[message->local_id] = {*message->qpn, packet.source_gid, packet.dest_gid};
    } else if (message->attribute == CmAttribute::kRep) {
      const auto found = requests.find(message->remote_id);
      if (found == requests.end() || found->second.from != packet.dest_gid ||
          found->second.to != packet.source_gid) {
        continue;
      }
      join_by_cm(packet, found->second.qpn, *message->qpn, Transport::kRc);
      join_by_cm(packet, found->second.qpn, *message->qpn, Transport::kUc);
    }
  }
}

void Pairer::join_by_cm(const wire::ParsedPacket& rep, Qpn requester, Qpn responder,
                        Transport transport) {
  const Index there = flow_at({rep.dest_gid, rep.source_gid, responder, transport});
  const Index back = flow_at({rep.source_gid, rep.dest_gid, requester, transport});
  if (there != kNoIndex) flows_[there].source_qpn = requester;
  if (back != kNoIndex) flows_[back].source_qpn = responder;
  if (there != kNoIndex && back != kNoIndex) pair(there, back, Pairing::kCm);
}

// How many responses of flow `second` carry a PSN that flow `first` has asked for.
std::map<std::pair<Index, Index>, uint64_t> Pairer::count_answers() const {
  // Many connections may count from the same PSN; the newest few that used it are looked at.
  constexpr size_t kRemembered = 8;
  struct Askers {
    std::array<Index, kRemembered> flows;
    size_t count = 0;
  };
  std::unordered_map<uint64_t, Askers> asked;
  std::map<std::pair<Index, Index>, uint64_t> answers;
  const auto key = [](uint32_t direction, Psn psn) {
    return uint64_t{direction} << 24 | psn.value();
  };
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    const Index flow = flow_of_[i];
    if (flow == kNoIndex || !trace_.packets[i].good()) continue;
    const wire::ParsedPacket& packet = *trace_.packets[i].packet;
    if (!packet.info->is_response()) {
      Askers& askers = asked[key(flows_[flow].direction, packet.psn)];
      const auto end = askers.flows.begin() + std::min(askers.count, kRemembered);
      if (std::find(askers.flows.begin(), end, flow) == end) {
        askers.flows[askers.count++ % kRemembered] = flow;
      }
      continue;
    }
    const auto back = directions_.find({packet.dest_gid, packet.source_gid});
    if (back == directions_.end()) continue;
    const auto found = asked.find(key(back->second, packet.psn));
    if (found == asked.end()) continue;
    const size_t count = std::min(found->second.count, kRemembered);
    for (size_t j = 0; j < count; ++j) ++answers[{found->second.flows[j], flow}];
  }
  return answers;
}

void Pairer::pair_by_psn() {
  std::vector<Candidate> candidates;
  for (const auto& [pair, count] : count_answers()) {
    const auto [requests, responses] = pair;
    // With PSNs alike in several connections, ports tell them apart.
    uint64_t weight = 1;
    if (same_port(requests, responses)) weight = 4;
    if (port_of_these(requests, responses)) weight = 16;
    candidates.push_back({requests, responses, count * weight});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  for (const Candidate& candidate : candidates) {
    pair(candidate.requests, candidate.responses, Pairing::kPsns);
  }
}

std::map<std::pair<uint32_t, Transport>, std::vector<Index>> Pairer::unpaired() const {
  std::map<std::pair<uint32_t, Transport>, std::vector<Index>> groups;
  for (Index i = 0; i < flows_.size(); ++i) {
    const Flow& flow = flows_[i];
    if (flow.partner == kNoIndex) groups[{flow.direction, flow.key.transport}].push_back(i);
  }
  return groups;
}

void Pairer::pair_by_port() {
  // (direction, transport, port) -> flows.
  std::map<std::tuple<uint32_t, Transport, uint16_t>, std::vector<Index>> groups;
  for (const auto& [group, flows] : unpaired()) {
    for (const Index i : flows) {
      groups[{group.first, group.second, flows_[i].source_port}].push_back(i);
    }
  }
  constexpr size_t kMostAlike = 64;  // beyond that a port says nothing
  for (const auto& [group, flows] : groups) {
    const Flow& first = flows_[flows.front()];
    const auto back = directions_.find({first.key.dest, first.key.source});
    if (back == directions_.end() || flows.size() > kMostAlike) continue;
    const auto found = groups.find({back->second, first.key.transport, first.source_port});
    if (found == groups.end() || found->second.size() > kMostAlike) continue;
    for (const Index a : flows) {
      for (const Index b : found->second) {
        if (a != b && port_of_these(a, b)) pair(a, b, Pairing::kPorts);
      }
    }
    if (!first.loops() && flows.size() == 1 && found->second.size() == 1 &&
        may_be_one(first, flows_[found->second.front()])) {
      pair(flows.front(), found->second.front(), Pairing::kPorts);
    }
  }
}

// Whether the flows do not contradict each other: responses have PSNs near the requests'.
bool Pairer::may_be_one(const Flow& a, const Flow& b) const {
  constexpr int32_t kNear = 1 << 16;
  const auto near = [](const std::optional<Psn>& request, const std::optional<Psn>& response) {
    if (!response) return true;
    return request.has_value() && std::abs(*response - *request) < kNear;
  };
  return near(a.first_request, b.first_response) && near(b.first_request, a.first_response);
}

void Pairer::pair_leftovers() {
  const auto groups = unpaired();
  for (const auto& [group, flows] : groups) {
    const Flow& first = flows_[flows.front()];
    if (first.loops()) {
      if (flows.size() == 2 && may_be_one(first, flows_[flows[1]])) {
        pair(flows[0], flows[1], Pairing::kOnlyOnes);
      }
      continue;
    }
    const auto back = directions_.find({first.key.dest, first.key.source});
    if (back == directions_.end()) continue;
    const auto found = groups.find({back->second, group.second});
    if (found == groups.end() || flows.size() != 1 || found->second.size() != 1) continue;
    const Index other = found->second.front();
    if (may_be_one(first, flows_[other])) pair(flows.front(), other, Pairing::kOnlyOnes);
  }
}

Index Pairer::new_connection(Service service, Pairing pairing) {
  Connection connection;
  connection.service = service;
  connection.pairing = pairing;
  trace_.connections.push_back(std::move(connection));
  return static_cast<Index>(trace_.connections.size() - 1);
}

// Of a flow that is in no connection yet, with its partner.
void Pairer::make_connection(Index first) {
  Flow& flow = flows_[first];
  const bool rc = flow.key.transport == Transport::kRc;
  const bool alone = flow.partner == kNoIndex;
  const Index index = new_connection(rc ? Service::kRc : Service::kUc,
                                     alone && flow.source_qpn ? Pairing::kCm : flow.pairing);
  // Side 0 sent the first request; without any, it is who was answered first.
  const Index its_request = flow.first_request_packet;
  const Index their_request = alone ? kNoIndex : flows_[flow.partner].first_request_packet;
  const bool starts = its_request != kNoIndex && its_request <= their_request;
  flow.connection = index;
  flow.side = starts ? 0 : 1;
  Connection& connection = trace_.connections[index];
  Endpoint& sender = connection.sides[flow.side];
  Endpoint& receiver = connection.sides[1 - flow.side];
  sender = {flow.key.source, flow.source_mac, flow.source_qpn};
  receiver = {flow.key.dest, flow.dest_mac, flow.key.dest_qpn};
  if (alone) return;
  Flow& partner = flows_[flow.partner];
  sender.qpn = partner.key.dest_qpn;
  if (flow.partner == first) return;
  partner.connection = index;
  partner.side = static_cast<uint8_t>(1 - flow.side);
}

// A QP that is connected to itself has one flow, in which responses are the other side's.
uint8_t Pairer::side_of(const TracedPacket& traced, const Flow& flow) const {
  const bool itself = flow.partner != kNoIndex && &flows_[flow.partner] == &flow;
  return itself ? static_cast<uint8_t>(traced.packet->info->is_response()) : flow.side;
}

void Pairer::attach_datagram(Index index) {
  TracedPacket& traced = trace_.packets[index];
  const wire::ParsedPacket& packet = *traced.packet;
  const End from = {packet.source_gid, packet.source_qpn};
  const End to = {packet.dest_gid, packet.dest_qpn};
  const auto key = from < to ? std::pair{from, to} : std::pair{to, from};
  auto found = datagrams_.find(key);
  if (found == datagrams_.end()) {
    if (!traced.good() && !datagrams_.empty()) return;  // its QPNs may be what is broken
    const bool gsi = packet.dest_qpn == kGsiQpn && packet.source_qpn == kGsiQpn;
    const Index made = new_connection(gsi ? Service::kGsi : Service::kUd, Pairing::kHeaders);
    trace_.connections[made].sides = {
        Endpoint{packet.source_gid, packet.source_mac, packet.source_qpn},
        Endpoint{packet.dest_gid, packet.dest_mac, packet.dest_qpn}};
    found = datagrams_.emplace(key, made).first;
  }
  const Endpoint& zero = trace_.connections[found->second].sides[0];
  traced.connection = found->second;
  traced.side = from == End{zero.gid, *zero.qpn} ? 0 : 1;
}

void Pairer::note_ends() {
  for (Index i = 0; i < trace_.connections.size(); ++i) {
    const auto& sides = trace_.connections[i].sides;
    for (const size_t side : {0U, 1U}) {
      if (!sides[side].qpn) continue;
      by_ends_.try_emplace({sides[side].gid, *sides[side].qpn, sides[1 - side].gid}, i);
    }
  }
}

// A CNP is for the QP that sent what was marked: it comes from the other side of a connection.
void Pairer::attach_cnp(Index index) {
  TracedPacket& traced = trace_.packets[index];
  const FlowKey key = key_of(*traced.packet);
  const auto [found, is_new] = by_ends_.try_emplace({key.dest, key.dest_qpn, key.source}, kNoIndex);
  if (is_new) {
    found->second = new_connection(Service::kUnknown, Pairing::kOneSided);
    trace_.connections[found->second].sides = {
        Endpoint{key.dest, traced.packet->dest_mac, key.dest_qpn},
        Endpoint{key.source, traced.packet->source_mac, {}}};
  }
  const Endpoint& zero = trace_.connections[found->second].sides[0];
  const bool to_zero = zero.gid == key.dest && zero.qpn == key.dest_qpn;
  traced.connection = found->second;
  traced.side = to_zero ? 1 : 0;
}

void Pairer::make_connections() {
  std::vector<Index> cnps;
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    TracedPacket& traced = trace_.packets[i];
    if (!traced.packet) continue;
    if (const Index flow = flow_of_[i]; flow != kNoIndex) {
      if (flows_[flow].connection == kNoIndex) make_connection(flow);
      traced.connection = flows_[flow].connection;
      traced.side = side_of(traced, flows_[flow]);
    } else if (traced.packet->info->transport == Transport::kUd) {
      attach_datagram(i);
    } else if (traced.packet->info->transport == Transport::kCnp) {
      cnps.push_back(i);
    }
  }
  if (!cnps.empty()) note_ends();
  for (const Index i : cnps) attach_cnp(i);
  for (Index i = 0; i < trace_.packets.size(); ++i) {
    const Index connection = trace_.packets[i].connection;
    if (connection != kNoIndex) trace_.connections[connection].packets.push_back(i);
  }
}

}  // namespace

void find_connections(Trace& trace) {
  Pairer(trace).run();
}

}  // namespace verbena::trace
