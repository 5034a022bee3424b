// What a responder must have had, by the requests that it got and how it answered them.
#include <algorithm>

#include "stack/objects.h"
#include "stack/wire/syndrome.h"
#include "tools/conformance/packets.h"
#include "tools/conformance/rc_import.h"

namespace verbena::conformance {
namespace {

using trace::TracedPacket;

bool is_nak(const wire::ParsedPacket& packet, NakCode code) {
  return packet.info->operation == Operation::kAcknowledge && packet.syndrome == nak_syndrome(code);
}

}  // namespace

void RcImport::read_refusals() {
  for (const TracedPacket* traced : mine_) {
    const wire::ParsedPacket& packet = *traced->packet;
    const bool fatal = is_nak(packet, NakCode::kInvalidRequest) ||
                       is_nak(packet, NakCode::kRemoteAccess) ||
                       is_nak(packet, NakCode::kRemoteOperational);
    if (fatal && refusal_ == nullptr) refusal_ = traced;
    if (is_rnr_nak(packet)) not_ready_.push_back(traced);
  }
  count_messages();
  if (refusal_ == nullptr) return;
  qp_.end_state = QpState::kErr;
  const auto message =
      std::find_if(served_.messages.begin(), served_.messages.end(),
                   [&](const Message& candidate) { return is_refused(candidate); });
  if (message == served_.messages.end() || message->operation == Operation::kSend) return;
  const bool access = is_nak(*refusal_->packet, NakCode::kRemoteAccess);
  case_.events.push_back({access ? AsyncEventType::kQpAccessErr : AsyncEventType::kQpReqErr, 0});
}

// A capture may begin when some messages were completed already.
void RcImport::count_messages() {
  for (const TracedPacket* traced : mine_) {
    const wire::ParsedPacket& packet = *traced->packet;
    if (!packet.info->has_aeth) continue;
    const bool ack = packet.info->operation == Operation::kAcknowledge &&
                     syndrome_kind(packet.syndrome) == SyndromeKind::kAck;
    uint32_t completed = 0;
    for (const Message& message : served_.messages) {
      const Psn counted = message.is_read() ? message.first_psn : message.last_psn;
      const bool read = packet.info->operation == Operation::kReadResponse;
      if (ack || read ? !counted.after(packet.psn) : counted.before(packet.psn)) ++completed;
    }
    qp_.msn = (packet.msn - completed) & Psn::kMask;
    return;
  }
}

bool RcImport::is_refused(const Message& message) const {
  return refusal_ != nullptr && message.holds(refusal_->packet->psn);
}

std::optional<uint32_t> RcImport::receive_posted_before(const Message& message) const {
  const TracedPacket* rnr = nullptr;
  for (const TracedPacket* traced : not_ready_) {
    if (message.holds(traced->packet->psn)) rnr = traced;
  }
  if (rnr == nullptr) return 0;
  for (const TracedPacket* traced : theirs_) {
    if (traced->number > rnr->number && traced->packet->psn == rnr->packet->psn &&
        !traced->packet->info->is_response()) {
      return traced->number;
    }
  }
  return std::nullopt;
}

RecvSection RcImport::receive_for(const Message& message) const {
  RecvSection recv;
  Completion completion;
  if (is_refused(message)) {
    const auto packets = static_cast<uint32_t>(refusal_->packet->psn - message.first_psn);
    const bool access = is_nak(*refusal_->packet, NakCode::kRemoteAccess);
    recv.bytes = message.operation == Operation::kSend ? packets * mtu_bytes(qp_.path_mtu) : 0;
    completion.status = access ? abi::WcStatus::kRemAccess : abi::WcStatus::kLocLen;
    recv.completion = completion;
    return recv;
  }
  const bool send = message.operation == Operation::kSend;
  if (send)
    recv.bytes = message.complete ? message.length : message.length + mtu_bytes(qp_.path_mtu);
  if (!message.complete) return recv;
  if (send && message.length != 0) recv.expect = Data{Data::Kind::kPackets, {}, 0, message.packets};
  completion.opcode = send ? abi::WcOpcode::kRecv : abi::WcOpcode::kRecvWriteImm;
  completion.byte_len = message.length;
  if (message.has_imm) completion.imm = message.imm;
  recv.completion = completion;
  return recv;
}

void RcImport::receives() {
  uint32_t before = 0;
  for (const Message& message : served_.messages) {
    const bool refused = is_refused(message);
    // A WRITE with immediate takes its receive with its last packet.
    const bool took = message.takes_recv() && (!refused || message.operation == Operation::kSend ||
                                               message.packets.size() == 1);
    if (took) {
      const auto posted = receive_posted_before(message);
      if (!posted) return;
      before = std::max(before, *posted);
      RecvSection recv = receive_for(message);
      if (before != 0) recv.when = {When::Kind::kBefore, before, 0};
      case_.recvs.push_back(std::move(recv));
    }
    if (refused) return;
  }
}

// The refused request and all behind it were not executed.
bool RcImport::is_executed_rdma(const Message& message) const {
  return message.operation != Operation::kSend &&
         (refusal_ == nullptr || message.last_psn.before(refusal_->packet->psn));
}

Regions RcImport::reached() const {
  Regions regions(capture_);
  for (const Message& message : served_.messages) {
    if (!is_executed_rdma(message)) continue;
    // A region that is written to is the application's own to write to.
    const uint32_t access =
        message.is_read() ? kAccessRemoteRead : kAccessRemoteWrite | kAccessLocalWrite;
    regions.reach(message.rkey, message.va, message.announced, access);
  }
  return regions;
}

void RcImport::memory() {
  Regions regions = reached();
  const bool invalid = refusal_ != nullptr && is_nak(*refusal_->packet, NakCode::kInvalidRequest);
  std::vector<const Message*> executed;
  for (const Message& message : served_.messages) {
    if (is_executed_rdma(message)) executed.push_back(&message);
    // Refused for its key: the queue pair as such allows it.
    const bool allowed = is_executed_rdma(message) || (is_refused(message) && !invalid);
    if (!allowed || message.operation == Operation::kSend) continue;
    qp_.access |= message.is_read() ? kAccessRemoteRead : kAccessRemoteWrite;
  }
  std::sort(executed.begin(), executed.end(), [](const Message* a, const Message* b) {
    return std::max(a->first_packet, a->last_packet) < std::max(b->first_packet, b->last_packet);
  });
  for (const Message* message : executed) {
    if (message->is_read()) {
      bool whole = false;
      regions.read(message->rkey, message->va, read_payloads(*message, mine_, whole),
                   message->first_packet);
    } else {
      regions.written(message->rkey, message->va, message->packets);
    }
  }
  std::move(regions).add_to(case_);
}

}  // namespace verbena::conformance
