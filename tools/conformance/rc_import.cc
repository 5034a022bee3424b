#include "tools/conformance/rc_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "stack/wire/syndrome.h"
#include "tools/conformance/arrivals.h"
#include "tools/conformance/packets.h"
#include "tools/trace/wire_fate.h"

namespace verbena::conformance {
namespace {

using trace::TracedPacket;

PathMtu mtu_of(uint32_t bytes) {
  PathMtu mtu = PathMtu::k256;
  while (mtu_bytes(mtu) < bytes && mtu != PathMtu::k4096) {
    mtu = static_cast<PathMtu>(static_cast<uint8_t>(mtu) + 1);
  }
  return mtu;
}

bool is_fatal_nak(const wire::ParsedPacket& packet) {
  return packet.info->operation == Operation::kAcknowledge &&
         syndrome_kind(packet.syndrome) == SyndromeKind::kNak &&
         packet.syndrome != nak_syndrome(NakCode::kPsnSequence);
}

abi::WcStatus status_of(uint8_t syndrome) {
  switch (static_cast<NakCode>(syndrome_value(syndrome))) {
    case NakCode::kInvalidRequest:
      return abi::WcStatus::kRemInvReq;
    case NakCode::kRemoteAccess:
      return abi::WcStatus::kRemAccess;
    case NakCode::kPsnSequence:
    case NakCode::kRemoteOperational:
      break;
  }
  return abi::WcStatus::kRemOp;
}

// The newest PSN that a response is about.
Psn reached_by(const wire::ParsedPacket& packet) {
  const bool nak = packet.info->operation == Operation::kAcknowledge &&
                   syndrome_kind(packet.syndrome) != SyndromeKind::kAck;
  return nak ? packet.psn - 1 : packet.psn;
}

abi::WrOpcode opcode_of(const Message& message) {
  switch (message.operation) {
    case Operation::kWrite:
      return message.has_imm ? abi::WrOpcode::kWriteImm : abi::WrOpcode::kWrite;
    case Operation::kReadRequest:
      return abi::WrOpcode::kRead;
    default:
      return message.has_imm ? abi::WrOpcode::kSendImm : abi::WrOpcode::kSend;
  }
}

abi::WcOpcode completion_opcode(const Message& message) {
  if (message.is_read()) return abi::WcOpcode::kRead;
  return message.operation == Operation::kWrite ? abi::WcOpcode::kWrite : abi::WcOpcode::kSend;
}

const char* unsupported(const OpcodeInfo& info) {
  if (info.operation == Operation::kAtomic || info.operation == Operation::kAtomicAcknowledge) {
    return "it has atomics, which Verbena does not do yet";
  }
  return info.has_ieth ? "it has SENDs with invalidate, which Verbena does not do yet" : nullptr;
}

}  // namespace

std::optional<std::string> reason_to_skip_rc(const trace::Trace& trace,
                                             const trace::Connection& connection) {
  size_t good = 0;
  for (const trace::Index index : connection.packets) {
    const TracedPacket& traced = trace.packets[index];
    if (traced.cut) return "its packets were captured in part only";
    if (traced.place == trace::Place::kRestart) {
      return "its queue pairs are set up anew within the capture";
    }
    if (!traced.good()) continue;
    ++good;
    if (const char* reason = unsupported(*traced.packet->info)) return reason;
  }
  if (good == 0) return "no packet of it has a right ICRC";
  return std::nullopt;
}

RcImport::RcImport(const trace::Capture& capture, const trace::Trace& trace,
                   const trace::Connection& connection, unsigned side)
    : capture_(capture),
      trace_(trace),
      connection_(connection),
      side_(side),
      first_packet_(first_message(trace, connection)),
      mine_(packets_of(trace, connection, side, first_packet_)),
      theirs_(packets_of(trace, connection, 1 - side, first_packet_)),
      asked_(requests_of(mine_)),
      served_(requests_of(theirs_)) {}

std::optional<std::string> RcImport::reason_to_skip() const {
  if (mine_.empty()) return "it sends nothing in this capture";
  if (asked_.begins_inside || served_.begins_inside) {
    return "the capture begins in the middle of a message";
  }
  if (asked_.has_hole || served_.has_hole) return "packets between others were not captured";
  const auto is_answer = [](const TracedPacket* traced) {
    return traced->packet->info->is_response() && traced->answers != trace::kNoIndex;
  };
  const bool answered = std::any_of(theirs_.begin(), theirs_.end(), is_answer);
  const bool answers = std::any_of(mine_.begin(), mine_.end(), is_answer);
  const bool again = std::any_of(mine_.begin(), mine_.end(), [](const TracedPacket* traced) {
    return traced->place == trace::Place::kAgain;
  });
  if (std::any_of(mine_.begin(), mine_.end(), [](const TracedPacket* traced) {
        return traced->packet->info->operation == Operation::kReadResponse &&
               traced->answers == trace::kNoIndex;
      })) {
    return "it answers READs from before the capture";
  }
  if (asked_.any && !answered && !again && !answers) {
    return "no whole exchange: requests without an answer";
  }
  if (std::any_of(theirs_.begin(), theirs_.end(),
                  [](const TracedPacket* traced) { return overtaken_on_wire(*traced); })) {
    return "the wire put packets behind later ones, and the capture does not say behind which";
  }
  if (!reached().fit()) return "its RDMA goes to places too far apart for regions of 256 MiB";
  if (!asked_.any && !answers) return "no whole exchange: answers without a request";
  return std::nullopt;
}

void RcImport::device_and_qp() {
  const wire::ParsedPacket& first = *mine_.front()->packet;
  case_.first_packet = first_packet_;
  case_.device.gid = first.source_gid;
  case_.device.mac = first.source_mac;
  qp_.qpn = connection_.sides[side_].qpn;
  qp_.peer = {first.dest_gid, first.dest_mac, first.dest_qpn};
  qp_.path_mtu = mtu_of(connection_.path_mtu);
  qp_.traffic_class = first.traffic_class & 0xFC;
  if (asked_.any) qp_.sq_psn = asked_.first_psn.value();
  if (served_.any) qp_.rq_psn = served_.first_psn.value();
  case_.role = !asked_.any ? Role::kResponder : served_.any ? Role::kBoth : Role::kRequester;
}

// ---- What the network did ----

void RcImport::network() {
  for (const trace::Index index : connection_.packets) {
    const TracedPacket& traced = trace_.packets[index];
    if (traced.side != side_) continue;
    if (!traced.good()) case_.network.corrupted.push_back(traced.number);
    if (traced.place == trace::Place::kCopy) case_.network.copied.push_back(traced.number);
  }
  find_arrivals(trace_, connection_, side_, case_.network);
  unseen_requests();
  unseen_responses();
}

bool RcImport::is_corrupted(Psn psn) const {
  return std::any_of(connection_.packets.begin(), connection_.packets.end(),
                     [&](trace::Index index) {
                       const TracedPacket& traced = trace_.packets[index];
                       return traced.side == side_ && !traced.good() && traced.packet->psn == psn;
                     });
}

// Requests of ours that are missing where they should have been, and were sent again later.
void RcImport::unseen_requests() {
  for (size_t i = 0; i < mine_.size(); ++i) {
    const TracedPacket& traced = *mine_[i];
    if (traced.missing == 0 || traced.packet->info->is_response() || i == 0) continue;
    for (uint32_t back = traced.missing; back > 0; --back) {
      const Psn psn = traced.packet->psn - back;
      const auto later = std::find_if(mine_.begin(), mine_.end(), [&](const TracedPacket* packet) {
        return packet->packet->psn == psn && !packet->packet->info->is_response();
      });
      if (later == mine_.end() || is_corrupted(psn)) continue;
      case_.network.unseen.push_back(
          {mine_[i - 1]->number, {{"opcode", (*later)->packet->opcode}, {"psn", psn.value()}}});
    }
  }
}

// Parts of a READ's answer that are missing between others.
void RcImport::unseen_responses() {
  trace::Index request = trace::kNoIndex;
  Psn next;
  uint32_t last_number = 0;
  const auto add_until = [&](Psn psn) {
    const TracedPacket& read = trace_.packets[request];
    const Psn end = read.packet->psn + read.psn_count;
    for (; next != psn && next.before(end); ++next) {
      const bool first = next == read.packet->psn;
      const bool last = next + 1 == end;
      const Opcode opcode = first
                                ? (last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst)
                                : (last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle);
      case_.network.unseen.push_back(
          {last_number, {{"opcode", static_cast<uint8_t>(opcode)}, {"psn", next.value()}}});
    }
  };
  for (const TracedPacket* traced : mine_) {
    if (traced->packet->info->operation != Operation::kReadResponse) continue;
    if (traced->answers == trace::kNoIndex) continue;
    if (traced->answers != request) {
      if (request != trace::kNoIndex) {
        add_until(trace_.packets[request].packet->psn + trace_.packets[request].psn_count);
      }
      request = traced->answers;
      next = trace_.packets[request].packet->psn;
      last_number = std::max(last_number, trace_.packets[request].number);
    }
    if (next.before(traced->packet->psn)) add_until(traced->packet->psn);
    next = traced->packet->psn + 1;
    last_number = traced->number;
  }
  if (request != trace::kNoIndex) {
    add_until(trace_.packets[request].packet->psn + trace_.packets[request].psn_count);
  }
}

// ---- As requester ----

void RcImport::read_answers_from_peer() {
  for (const TracedPacket* traced : theirs_) {
    const wire::ParsedPacket& packet = *traced->packet;
    if (!packet.info->is_response() || traced->unheeded != trace::Unheeded::kNo) continue;
    const auto& lost = case_.network.lost;
    if (std::find(lost.begin(), lost.end(), traced->number) != lost.end()) continue;
    const Psn psn = reached_by(packet);
    if (!acked_ || psn.after(*acked_)) {
      if (acked_ || !psn.before(asked_.first_psn)) rnr_naks_ = 0;
      acked_ = psn;
    }
    if (is_fatal_nak(packet) && refused_ == nullptr) refused_ = traced;
    if (is_rnr_nak(packet)) {
      ++rnr_naks_;
      last_rnr_ = traced;
    }
  }
  if (last_rnr_ == nullptr) return;
  for (const TracedPacket* traced : mine_) {
    if (!traced->packet->info->is_response() && traced->number > last_rnr_->number) {
      last_rnr_ = nullptr;
      return;
    }
  }
}

std::vector<uint32_t> RcImport::read_payloads(const Message& read, const Packets& responses,
                                              bool& whole) const {
  std::vector<uint32_t> packets;
  // They lie behind the request, mostly close together.
  auto from = std::partition_point(
      responses.begin(), responses.end(),
      [&](const TracedPacket* traced) { return traced->number < read.first_packet; });
  for (Psn psn = read.first_psn; !psn.after(read.last_psn); ++psn) {
    const auto found = std::find_if(from, responses.end(), [&](const TracedPacket* traced) {
      return traced->packet->info->operation == Operation::kReadResponse &&
             traced->packet->psn == psn;
    });
    if (found == responses.end()) break;
    packets.push_back((*found)->number);
  }
  whole = packets.size() == static_cast<uint32_t>(read.last_psn - read.first_psn) + 1;
  return packets;
}

void RcImport::sends() {
  bool failed = false;
  for (const Message& message : asked_.messages) {
    SendSection send;
    send.when = {When::Kind::kBefore, message.first_packet, 0};
    send.opcode = opcode_of(message);
    send.flags =
        static_cast<uint8_t>(abi::kWrSignaled | (message.solicited ? abi::kWrSolicited : 0));
    send.imm = message.imm;
    send.remote_va = message.va;
    send.rkey = message.rkey;
    bool done = message.complete && acked_ && !message.last_psn.after(*acked_);
    if (message.is_read()) {
      bool whole = false;
      const auto payloads = read_payloads(message, theirs_, whole);
      send.bytes = message.length;
      done = done && whole;
      if (done && message.length != 0) send.expect = Data{Data::Kind::kPackets, {}, 0, payloads};
    } else {
      if (message.length != 0) send.data = Data{Data::Kind::kPackets, {}, 0, message.packets};
      if (!message.complete) {
        send.bytes =
            message.announced != 0 ? message.announced : message.length + mtu_bytes(qp_.path_mtu);
      }
    }
    if (failed) {
      send.completion = Completion::of(abi::WcStatus::kWrFlush);
    } else if (done) {
      send.completion = Completion::of(abi::WcStatus::kSuccess, completion_opcode(message));
    } else if (refused_ != nullptr && message.holds(refused_->packet->psn)) {
      send.completion = Completion::of(status_of(refused_->packet->syndrome));
      failed = true;
    }
    case_.sends.push_back(std::move(send));
  }
  if (failed) qp_.end_state = QpState::kErr;
}

// What was never answered: the capture ends there, or the requester gave up.
void RcImport::give_up() {
  const auto first = std::find_if(case_.sends.begin(), case_.sends.end(),
                                  [](const auto& send) { return !send.completion.has_value(); });
  if (first == case_.sends.end()) return;
  const Psn oldest = acked_ && !acked_->before(asked_.first_psn) ? *acked_ + 1 : asked_.first_psn;
  const auto transmissions =
      static_cast<uint32_t>(std::count_if(mine_.begin(), mine_.end(), [&](const auto* traced) {
        return !traced->packet->info->is_response() && traced->packet->psn == oldest;
      }));
  constexpr uint32_t kMostRetries = 7;
  abi::WcStatus status = abi::WcStatus::kSuccess;
  if (last_rnr_ != nullptr && rnr_naks_ <= kMostRetries) {
    qp_.rnr_retry = rnr_naks_ - 1;
    status = abi::WcStatus::kRnrRetryExc;
    add_rule("RC-REQ-41");
  } else if (last_rnr_ == nullptr && transmissions > 1 && transmissions <= kMostRetries + 1) {
    qp_.retry_cnt = transmissions - 1;
    status = abi::WcStatus::kRetryExc;
    add_rule("RC-REQ-33");
  } else {
    case_.until_idle = false;
    return;
  }
  qp_.end_state = QpState::kErr;
  for (auto send = first; send != case_.sends.end(); ++send) {
    send->completion = Completion::of(send == first ? status : abi::WcStatus::kWrFlush);
  }
}

// The timer codes that fit what was waited for, and do not fire where nothing was sent again.
void RcImport::timers() {
  std::optional<DurationNs> shortest;
  DurationNs longest = 0;
  Psn behind_last_again;
  for (const TracedPacket* traced : mine_) {
    if (traced->packet->info->is_response()) {
      if (is_rnr_nak(*traced->packet)) qp_.min_rnr_timer = syndrome_value(traced->packet->syndrome);
      continue;
    }
    if (traced->place == trace::Place::kAgain && traced->cause == trace::Cause::kTimeout) {
      // Of what is sent again together, the first had waited.
      if (traced->packet->psn != behind_last_again) {
        shortest = std::min(shortest.value_or(traced->waited), traced->waited);
      }
      behind_last_again = traced->packet->psn + traced->psn_count;
      add_rule("RC-REQ-33");
    } else if (traced->answered_by != trace::kNoIndex) {
      const Timestamp answered = trace_.packets[traced->answered_by].time;
      if (answered > traced->time) longest = std::max(longest, answered - traced->time);
    }
  }
  constexpr uint32_t kUsual = 14;
  constexpr uint32_t kLongest = 31;
  qp_.timeout = kUsual;
  if (shortest) {
    // The nearest power of two.
    const uint64_t units = std::max<uint64_t>(1, (*shortest + *shortest / 3) / 4096);
    qp_.timeout = std::clamp(static_cast<uint32_t>(std::bit_width(units)) - 1, 1U, kLongest);
  } else {
    while (qp_.timeout < kLongest && ack_timeout(static_cast<uint8_t>(qp_.timeout)) < 2 * longest) {
      ++qp_.timeout;
    }
    // It waited longer than any timer does.
    if (ack_timeout(static_cast<uint8_t>(qp_.timeout)) < longest) qp_.timeout = 0;
  }
}

void RcImport::add_rule(const char* rule) {
  auto& rules = case_.rules;
  if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.emplace_back(rule);
}

// The rules that what happened is about.
void RcImport::rules() {
  const auto see = [&](const Requests& requests) {
    for (const Message& message : requests.messages) {
      add_rule(message.is_read() ? "RC-PSN-3" : "RC-REQ-1");
      if (message.has_imm && message.operation == Operation::kWrite) add_rule("RC-RSP-25");
    }
  };
  see(asked_);
  see(served_);
  for (const Packets* packets : {&mine_, &theirs_}) {
    for (const TracedPacket* traced : *packets) {
      const wire::ParsedPacket& packet = *traced->packet;
      if (traced->cause == trace::Cause::kImpliedNak) add_rule("RC-REQ-11");
      if (packet.info->operation != Operation::kAcknowledge) continue;
      if (traced->unheeded != trace::Unheeded::kNo) continue;
      if (packet.syndrome == nak_syndrome(NakCode::kPsnSequence)) {
        add_rule(packets == &mine_ ? "RC-RSP-1" : "RC-REQ-20");
      } else if (is_fatal_nak(packet)) {
        add_rule("RC-RSP-28");
      } else if (is_rnr_nak(packet)) {
        add_rule(packets == &mine_ ? "RC-RSP-24" : "RC-REQ-40");
      } else {
        add_rule("RC-RSP-40");
      }
    }
  }
  std::sort(case_.rules.begin(), case_.rules.end());
}

Case RcImport::make() {
  device_and_qp();
  network();
  timers();
  if (asked_.any) {
    read_answers_from_peer();
    sends();
    give_up();
  }
  if (served_.any) {
    read_refusals();
    receives();
    memory();
  }
  rules();
  case_.qps.push_back(qp_);
  return std::move(case_);
}

}  // namespace verbena::conformance
