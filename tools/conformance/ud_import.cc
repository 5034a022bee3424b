#include "tools/conformance/ud_import.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "tools/conformance/names.h"
#include "tools/conformance/packets.h"

namespace verbena::conformance {
namespace {

using trace::TracedPacket;

using QpAddress = std::pair<Gid, Qpn>;
using Datagrams = std::vector<const TracedPacket*>;

struct Flow {
  Datagrams sent;
  Datagrams received;
};

std::map<QpAddress, Flow> flows_of(const trace::Trace& trace) {
  std::map<QpAddress, Flow> flows;
  for (const trace::Connection& connection : trace.connections) {
    if (connection.service != trace::Service::kUd) continue;
    for (const trace::Index index : connection.packets) {
      const TracedPacket& traced = trace.packets[index];
      if (!traced.good() || !traced.packet->info->has_deth) continue;
      const wire::ParsedPacket& packet = *traced.packet;
      flows[{packet.source_gid, packet.source_qpn}].sent.push_back(&traced);
      flows[{packet.dest_gid, packet.dest_qpn}].received.push_back(&traced);
    }
  }
  return flows;
}

std::optional<std::string> reason_to_skip(const QpAddress& address, const Flow& flow) {
  if (address.second == kMulticastQpn) return "it is a multicast group";
  for (const Datagrams* datagrams : {&flow.sent, &flow.received}) {
    for (const TracedPacket* traced : *datagrams) {
      if (traced->cut) return "its packets were captured in part only";
    }
  }
  for (size_t i = 1; i < flow.sent.size(); ++i) {
    if (flow.sent[i]->packet->psn != flow.sent[i - 1]->packet->psn + 1) {
      return "datagrams between others were not captured";
    }
  }
  return std::nullopt;
}

SendSection send_of(const TracedPacket& traced) {
  const wire::ParsedPacket& packet = *traced.packet;
  SendSection send;
  send.when = {When::Kind::kBefore, traced.number, 0};
  send.opcode = packet.info->has_imm ? abi::WrOpcode::kSendImm : abi::WrOpcode::kSend;
  send.flags = static_cast<uint8_t>(abi::kWrSignaled | (packet.solicited ? abi::kWrSolicited : 0));
  if (!packet.payload.empty()) send.data = {Data::Kind::kPackets, {}, 0, {traced.number}};
  send.imm = __builtin_bswap32(packet.imm_wire);
  send.to = Peer{packet.dest_gid, packet.dest_mac, packet.dest_qpn};
  send.qkey = packet.qkey;
  send.completion = Completion::of(abi::WcStatus::kSuccess, abi::WcOpcode::kSend);
  return send;
}

RecvSection recv_of(const TracedPacket& traced) {
  const wire::ParsedPacket& packet = *traced.packet;
  RecvSection recv;
  recv.bytes = kGrhBytes + static_cast<uint32_t>(packet.payload.size());
  if (!packet.payload.empty()) recv.expect = Data{Data::Kind::kPackets, {}, 0, {traced.number}};
  recv.completion = Completion::of(abi::WcStatus::kSuccess, abi::WcOpcode::kRecv);
  recv.completion->byte_len = recv.bytes;
  recv.completion->src_qpn = packet.source_qpn;
  if (packet.info->has_imm) recv.completion->imm = __builtin_bswap32(packet.imm_wire);
  return recv;
}

Case case_of(const QpAddress& address, const Flow& flow) {
  Case c;
  c.rules = {"UD-1"};
  c.role = flow.sent.empty()       ? Role::kResponder
           : flow.received.empty() ? Role::kRequester
                                   : Role::kBoth;
  c.device.gid = address.first;
  QpSection qp;
  qp.type = QpType::kUd;
  qp.qpn = address.second;
  if (!flow.sent.empty()) {
    const wire::ParsedPacket& first = *flow.sent.front()->packet;
    c.device.mac = first.source_mac;
    qp.sq_psn = first.psn.value();
    qp.qkey = first.qkey;
    qp.traffic_class = first.traffic_class & 0xFC;
  }
  if (!flow.received.empty()) {
    const wire::ParsedPacket& first = *flow.received.front()->packet;
    c.device.mac = first.dest_mac;
    qp.qkey = first.qkey;
    c.rules.emplace_back("UD-2");
    c.rules.emplace_back("UD-4");
  }
  c.qps.push_back(qp);
  for (const TracedPacket* traced : flow.sent) c.sends.push_back(send_of(*traced));
  for (const TracedPacket* traced : flow.received) c.recvs.push_back(recv_of(*traced));
  return c;
}

}  // namespace

std::vector<Case> import_datagrams(const trace::Trace& trace, std::vector<std::string>& skipped) {
  std::vector<Case> cases;
  for (const auto& [address, flow] : flows_of(trace)) {
    if (const auto reason = reason_to_skip(address, flow)) {
      skipped.push_back(
          fmt::format("UD QP 0x{:x} of {}: {}", address.second, ip_text(address.first), *reason));
    } else {
      cases.push_back(case_of(address, flow));
    }
  }
  return cases;
}

}  // namespace verbena::conformance
