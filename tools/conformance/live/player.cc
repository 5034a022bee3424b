#include "tools/conformance/live/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tools/conformance/expectations.h"
#include "tools/conformance/frame_edit.h"
#include "tools/conformance/live/setup.h"
#include "tools/conformance/names.h"
#include "tools/conformance/packets.h"

namespace verbena::conformance::live {
namespace {

using nlohmann::json;
using wire::ParsedPacket;

// How long a packet that must come is waited for, and one that may.
constexpr DurationNs kPatience = 1'000'000'000;
constexpr DurationNs kSettle = 60'000'000;
// Long pauses of the capture are shortened to this.
constexpr DurationNs kLongestPause = 2'000'000'000;

int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::optional<std::string> unsuitable(const Case& c, const Host& target) {
  if (!c.sends.empty()) return "the device is the requester in it";
  if (c.device.gid.is_ipv4() != target.gid.is_ipv4()) {
    return fmt::format("it is over {}, the target's address is not",
                       c.device.gid.is_ipv4() ? "IPv4" : "IPv6");
  }
  if (!c.engine_only.empty()) return c.engine_only;
  return std::nullopt;
}

Player::Player(const Case& c, const trace::Capture& capture, const Script& script, Wire& wire,
               Agent& agent)
    : case_(c), capture_(capture), script_(script), wire_(wire), agent_(agent) {
  result_.device = "the target";
}

CaseResult Player::play() {
  open();
  memories_ = contents_of(case_, capture_);
  begin_ = clock_ns();
  for (const Step& step : script_.steps) run(step);
  finish();
  return std::move(result_);
}

void Player::open() {
  for (const QpSection& qp : case_.qps) {
    if (qp.type == QpType::kRc) peers_.push_back({qp.peer.mac, qp.peer.gid});
  }
  // Datagrams come from anywhere; we are the first who sends one.
  for (const Step& step : script_.steps) {
    if (!peers_.empty() || step.kind != Step::Kind::kPlay) continue;
    const auto parsed = wire::parse(capture_.frames[step.index].bytes);
    const auto* packet = std::get_if<ParsedPacket>(&parsed);
    if (packet != nullptr) peers_.push_back({packet->source_mac, packet->source_gid});
  }
  const json numbers = agent_.ask(open_message(case_, capture_, wire_.target(), wire_.own()));
  for (size_t i = 0; i < case_.qps.size(); ++i) {
    if (case_.qps[i].qpn) qpns_[*case_.qps[i].qpn] = numbers.at("qps").at(i).get<Qpn>();
  }
  for (size_t i = 0; i < case_.memories.size(); ++i) {
    if (case_.memories[i].key) keys_[*case_.memories[i].key] = numbers.at("keys").at(i).get<Key>();
  }
  wire_.drain();
}

DurationNs Player::now() const {
  return static_cast<DurationNs>(clock_ns() - begin_);
}

Row& Player::add_row(Row::Kind kind, uint32_t packet, std::string note) {
  result_.rows.push_back({kind, now(), packet, {}, {}, std::move(note)});
  return result_.rows.back();
}

void Player::run(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kPlay:
      return play_frame(step);
    case Step::Kind::kLost:
      add_row(Row::Kind::kLost, step.packet, "did not arrive");
      return;
    case Step::Kind::kSent:
      return expect_frame(step);
    case Step::Kind::kExtra:
      return expect_extra(step);
    case Step::Kind::kRecv:
    case Step::Kind::kSend:
    case Step::Kind::kStore:
    case Step::Kind::kModify:
      wait_until(step.time);
      return act(step);
  }
}

// Nothing is played earlier than in the capture, long pauses aside.
void Player::wait_until(DurationNs time) {
  const DurationNs reached = now();
  if (time <= reached) return;
  const DurationNs pause = std::min<DurationNs>(time - reached, kLongestPause);
  std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
}

Key Player::key_at_target(Key key) const {
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second;
  // A key that nothing has must not become one by chance.
  for (const auto& [unused, taken] : keys_) {
    if (taken == key) return ~key;
  }
  return key;
}

std::vector<uint8_t> Player::for_target(std::span<const uint8_t> frame) const {
  FrameEdit edit;
  edit.hosts.push_back(
      {case_.device.mac, case_.device.gid, wire_.target().mac, wire_.target().gid});
  for (const Host& peer : peers_) {
    edit.hosts.push_back({peer.mac, peer.gid, wire_.own().mac, wire_.own().gid});
  }
  if (const auto qpn = dest_qpn_of(frame)) {
    const auto found = qpns_.find(*qpn);
    if (found != qpns_.end()) edit.dest_qpn = found->second;
  }
  const auto parsed = wire::parse(frame);
  if (const auto* packet = std::get_if<ParsedPacket>(&parsed)) {
    if (packet->info->has_reth || packet->info->has_atomic_eth) {
      edit.rkey = key_at_target(packet->rkey);
    }
    if (packet->info->has_ieth) edit.invalidate_rkey = key_at_target(packet->invalidate_rkey);
  }
  return edited(frame, edit);
}

ParsedPacket Player::for_capture(ParsedPacket packet) const {
  for (size_t i = 0; i < case_.qps.size(); ++i) {
    const QpSection& qp = case_.qps[i];
    if (qp.peer.qpn != packet.dest_qpn) continue;
    packet.source_mac = case_.device.mac;
    packet.source_gid = case_.device.gid;
    packet.dest_mac = qp.peer.mac;
    packet.dest_gid = qp.peer.gid;
    packet.msn = (packet.msn + qp.msn) & Psn::kMask;
  }
  return packet;
}

void Player::play_frame(const Step& step) {
  wait_until(step.time);
  add_row(Row::Kind::kPlayed, step.packet);
  wire_.send(for_target(capture_.frames[step.index].bytes));
}

void Player::act(const Step& step) {
  const auto tell = [&](const json& request) {
    try {
      (void)agent_.ask(request);
    } catch (const AgentError& error) {
      result_.wrong.emplace_back(error.what());
    }
  };
  add_row(Row::Kind::kAction, 0, action_text(case_, step));
  if (step.kind == Step::Kind::kRecv) {
    posted_.push_back(step.index);
    tell({{"do", "recv"}, {"index", step.index}});
  } else if (step.kind == Step::Kind::kStore) {
    const StoreSection& store = case_.stores[step.index];
    std::vector<uint8_t>& memory = memories_[store.memory];
    put(memory, store.piece, capture_);
    tell({{"do", "store"},
          {"memory", store.memory},
          {"offset", store.piece.offset},
          {"bytes", to_hex(bytes_of(store.piece, memory.size(), capture_))}});
  } else {
    const ModifySection& modify = case_.modifies[step.index];
    const std::string state = word_of_enum(kQpStateNames, modify.state);
    tell({{"do", "modify"}, {"qp", modify.qp}, {"state", state}});
  }
}

// Waits for a packet that belongs to the case.
bool Player::fill(DurationNs within) {
  const DurationNs end = now() + within;
  while (inbox_.empty()) {
    const DurationNs reached = now();
    auto frame = wire_.receive(reached < end ? end - reached : 0);
    if (!frame) return false;
    answered_ = true;
    const auto parsed = wire::parse(*frame);
    const auto* packet = std::get_if<ParsedPacket>(&parsed);
    if (packet == nullptr || !wire::icrc_valid(*packet)) {
      result_.wrong.push_back(fmt::format(
          "the target sent a packet of {} bytes that cannot be read, or with a wrong ICRC",
          frame->size()));
      continue;
    }
    const bool ours = std::any_of(case_.qps.begin(), case_.qps.end(), [&](const QpSection& qp) {
      return qp.peer.qpn == packet->dest_qpn;
    });
    if (!ours) continue;
    const ParsedPacket translated = for_capture(*packet);
    inbox_.push_back({std::move(*frame), translated});
  }
  return true;
}

// Whether the next packet of the target makes an ACK of the capture needless (RC-RSP-40).
bool Player::covered(const Step& step, const ParsedPacket& capture) {
  while (fill(kPatience)) {
    const ParsedPacket& theirs = inbox_.front().packet;
    if (is_ack(theirs) && theirs.psn.before(capture.psn)) {
      add_row(Row::Kind::kAllowed, 0, "an ACK of its own (RC-RSP-40)").ours =
          std::move(inbox_.front().frame);
      inbox_.pop_front();
      continue;
    }
    if (!is_ack(capture) || !theirs.psn.after(capture.psn)) return false;
    add_row(Row::Kind::kCovered, step.packet, "a later answer speaks for it (RC-RSP-40)");
    return true;
  }
  return false;
}

void Player::expect_frame(const Step& step) {
  const auto parsed = wire::parse(capture_.frames[step.index].bytes);
  const ParsedPacket& capture = *std::get_if<ParsedPacket>(&parsed);
  if (const Difference* difference = not_sent(case_, step.packet)) {
    add_row(Row::Kind::kCovered, step.packet,
            fmt::format("{}: {}", difference->rule, difference->why));
    return;
  }
  const bool optional = holds(case_.compare.optional, step.packet);
  if (!optional && !case_.compare.exact_acks && covered(step, capture)) return;
  if (!fill(optional ? kSettle : kPatience)) {
    add_row(optional ? Row::Kind::kCovered : Row::Kind::kMissing, step.packet,
            optional ? "may be left out" : "the target sends nothing");
    return;
  }
  match(step, capture);
}

void Player::match(const Step& step, const ParsedPacket& capture) {
  // Adapters mark and label packets as they are configured to.
  Exceptions exceptions = exceptions_of(case_, step.packet);
  exceptions.ignored.insert(exceptions.ignored.end(), {"traffic_class", "flow_label"});
  Received theirs = std::move(inbox_.front());
  inbox_.pop_front();
  Row& row = add_row(Row::Kind::kSame, step.packet);
  row.mismatches = compare(capture, theirs.packet, exceptions);
  if (!row.mismatches.empty()) row.kind = Row::Kind::kDifferent;
  row.ours = std::move(theirs.frame);
}

// What Verbena sends beyond the capture is for others a choice.
void Player::expect_extra(const Step& step) {
  if (!fill(kSettle)) return;
  const Extra& extra = script_.extras[step.index];
  const bool same =
      std::all_of(extra.fields.begin(), extra.fields.end(), [&](const FieldValue& field) {
        return field_value(inbox_.front().packet, field.field) == field.value;
      });
  if (!same) return;
  add_row(Row::Kind::kAllowed, 0, extra.why).ours = std::move(inbox_.front().frame);
  inbox_.pop_front();
}

void Player::finish() {
  while (fill(kSettle)) {
    const bool allowed = is_ack(inbox_.front().packet) && !case_.compare.exact_acks;
    Row& row = allowed ? add_row(Row::Kind::kAllowed, 0, "an ACK of its own (RC-RSP-40)")
                       : add_row(Row::Kind::kExtra, 0, "the capture has no such packet");
    row.ours = std::move(inbox_.front().frame);
    inbox_.pop_front();
  }
  const auto wrong =
      check_result(case_, capture_, posted_, memories_, agent_.ask({{"do", "result"}}));
  result_.wrong.insert(result_.wrong.end(), wrong.begin(), wrong.end());
}

}  // namespace verbena::conformance::live
