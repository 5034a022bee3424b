#include "stack/qp/ud.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/qp/completion.h"
#include "stack/qp/gather.h"
#include "stack/qp/recv.h"
#include "stack/qp/store.h"

namespace verbena::ud {
namespace {

constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kControlledQkey = 0x80000000;

wire::PacketSpec datagram(Engine& engine, const Qp& qp, const SendWr& wr, const wire::Path& path) {
  wire::PacketSpec spec =
      engine.packet(qp, wr.has_imm() ? Opcode::kUdSendOnlyImm : Opcode::kUdSendOnly, wr.first_psn);
  spec.path = &path;
  spec.dest_qpn = wr.remote_qpn & kMulticastQpn;
  // A Q_Key with the high bit set stands for the queue pair's own (UD-5).
  spec.qkey = (wr.remote_qkey & kControlledQkey) != 0 ? qp.attr.qkey : wr.remote_qkey;
  spec.imm_wire = wr.imm_wire;
  spec.solicited = (wr.flags & abi::kWrSolicited) != 0;
  spec.payload_bytes = wr.length;
  return spec;
}

void retire(Engine& engine, Qp& qp) {
  qp.req.una = qp.req.sent = qp.req.next_psn;
  ++qp.req.cursor;
  complete_send(engine, qp);
  report_drained(engine, qp);
}

// What libibverbs finds the sender's address in.
std::array<uint8_t, kGrhBytes> grh_of(const wire::ParsedPacket& packet) {
  std::array<uint8_t, kGrhBytes> grh{};
  if (packet.source_gid.is_ipv4()) {
    std::memcpy(grh.data() + kGrhBytes - kIpv4Bytes, packet.ip.data(), kIpv4Bytes);
  } else {
    std::memcpy(grh.data(), packet.ip.data(), kGrhBytes);
  }
  return grh;
}

void fail(Engine& engine, Qp& qp, abi::WcStatus status, abi::VendorErr vendor) {
  engine.verdict = {.kind = RxVerdict::Kind::kConnectionEnds};
  fail_recv(engine, qp, status, vendor);
  enter_error(engine, qp);
}

// A receive work request for the packet, or false when it is to be dropped.
bool hold_recv(Engine& engine, Qp& qp) {
  if (qp.resp.at.recv_held) return true;
  switch (take_recv(engine, qp)) {
    case RecvQueue::Take::kTaken:
      return true;
    case RecvQueue::Take::kEmpty:
      engine.drop(DropReason::kNoReceive);
      return false;
    case RecvQueue::Take::kMalformed:
      ++engine.stats.malformed_wqe;
      fail(engine, qp, abi::WcStatus::kLocQpOp, abi::VendorErr::kBadWqe);
      return false;
    case RecvQueue::Take::kBrokenRing:
      broken_ring(engine, qp);
      return false;
  }
  return false;
}

// False when the datagram could not be stored; that is dealt with.
bool store_datagram(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  const auto grh = grh_of(packet);
  const Placement::Owner owner{&qp, false, packet.psn};
  CopyResult copy = scatter_to_sges(engine, owner, recv_pd(qp), recv_sges(qp), 0, grh);
  if (copy.ok()) {
    copy = scatter_to_sges(engine, owner, recv_pd(qp), recv_sges(qp), kGrhBytes, packet.payload);
  }
  // `grh` lives until here only, so nothing of it may wait.
  const bool stored = flush_placement(engine) != &qp;
  if (copy.kind == CopyResult::Kind::kLater || !stored) return false;
  if (!copy.ok()) fail(engine, qp, abi::WcStatus::kLocProt, copy.vendor);
  return copy.ok();
}

}  // namespace

Turn send_datagram(Engine& engine, Qp& qp, uint32_t& sent) {
  SendWr& wr = qp.sq.at(qp.req.cursor);
  const Ah* ah = engine.ahs.find(wr.ah);
  if (ah == nullptr || ah->client != qp.client || ah->pd != qp.pd) {
    fail_send_in_order(engine, qp, qp.req.cursor, abi::WcStatus::kLocQpOp, abi::VendorErr::kBadWqe);
    return Turn::kIdle;
  }
  // Longer than the port's MTU: nothing is sent, and the work request completes (C10-93.1.1).
  if (wr.length > mtu_bytes(engine.config.active_mtu)) {
    ++sent;  // it costs a turn all the same
    retire(engine, qp);
    return Turn::kMore;
  }
  wire::Path path = ah->path;
  path.source_port = wire::udp_source_port(path.flow_label, qp.qpn, wr.remote_qpn);
  if (!engine.frames.open(*engine.sink, datagram(engine, qp, wr, path),
                          {.kind = TxNote::Kind::kRequest})) {
    return Turn::kSinkFull;
  }
  const CopyResult copy =
      gather_message(engine, qp, wr, qp.req.cursor, 0, engine.frames.payloads());
  if (!copy.ok()) {
    engine.frames.release(*engine.sink);
    if (copy.kind == CopyResult::Kind::kLater) return Turn::kLater;
    fail_send_in_order(engine, qp, qp.req.cursor, abi::WcStatus::kLocProt, copy.vendor);
    return Turn::kIdle;
  }
  engine.frames.commit(*engine.sink, engine.stats);
  ++sent;
  retire(engine, qp);
  return Turn::kMore;
}

void on_packet(Engine& engine, Qp& qp, const wire::ParsedPacket& packet) {
  if (!qp.takes_requests()) return engine.drop(DropReason::kQpState);
  if (packet.qkey != qp.attr.qkey) return engine.drop(DropReason::kBadQkey);
  if (packet.payload.size() > mtu_bytes(engine.config.active_mtu)) {
    return engine.drop(DropReason::kBadLength);
  }
  if (!hold_recv(engine, qp)) return;
  const auto bytes = static_cast<uint32_t>(kGrhBytes + packet.payload.size());
  if (bytes > qp.resp.at.recv.length) {
    ++engine.stats.resp_local_length_error;
    return fail(engine, qp, abi::WcStatus::kLocLen, abi::VendorErr::kRecvTooShort);
  }
  if (!store_datagram(engine, qp, packet)) return;
  ++engine.stats.rx_send_requests;
  engine.verdict = {.kind = RxVerdict::Kind::kDelivered};
  Received received;
  received.byte_len = bytes;
  received.imm_wire = packet.imm_wire;
  received.has_imm = packet.info->has_imm;
  received.has_grh = true;
  received.solicited = packet.solicited;
  received.src_qpn = packet.source_qpn;
  complete_recv(engine, qp, received);
}

void on_store_failed(Engine& engine, Qp& qp, MemResult result) {
  if (qp.state == QpState::kErr || !qp.resp.at.recv_held) return;
  if (result == MemResult::kLater) return engine.drop(DropReason::kMemoryLater);
  fail(engine, qp, abi::WcStatus::kLocProt, abi::VendorErr::kLocalFault);
}

}  // namespace verbena::ud
