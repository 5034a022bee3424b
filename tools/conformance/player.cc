#include "tools/conformance/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stack/wire/syndrome.h"
#include "tools/conformance/expectations.h"
#include "tools/conformance/packets.h"

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// For timers that tick in steps of their own.
constexpr DurationNs kSlack = 10'000;
// How long the engine may go on by itself behind the last packet.
constexpr DurationNs kLongestEnd = 60'000'000'000;
// Timers that run out in one pause of the capture: all retries of a hundred queue pairs.
constexpr size_t kMostTimers = 1000;
// An engine that never stops sending is seen by fewer.
constexpr size_t kMostExtras = 50;

// The newest PSN that a response acknowledges.
Psn acknowledged_by(const ParsedPacket& packet) {
  return is_ack(packet) ? packet.psn : packet.psn - 1;
}

DurationNs times(DurationNs duration, double factor) {
  return static_cast<DurationNs>(std::llround(static_cast<double>(duration) * factor));
}

std::string milliseconds(DurationNs duration) {
  return fmt::format("{:.3f} ms", static_cast<double>(duration) / 1e6);
}

}  // namespace

Player::Player(const Case& c, const trace::Capture& capture, const Script& script, Stage& stage)
    : case_(c),
      capture_(capture),
      script_(script),
      stage_(stage),
      outbox_(stage, c.qps.size()),
      states_(c.qps.size()) {}

CaseResult Player::play() {
  for (const Step& step : script_.steps) run(step);
  finish();
  result_.wrong = stage_.check();
  for (const auto& frame : outbox_.broken()) {
    result_.wrong.push_back(fmt::format(
        "the engine sent a packet of {} bytes that cannot be read or that no queue pair sends",
        frame.size()));
  }
  return std::move(result_);
}

void Player::run(const Step& step) {
  advance(kBegin + step.time + shift_);
  switch (step.kind) {
    case Step::Kind::kSent:
      return expect_frame(step);
    case Step::Kind::kPlay:
      return play_frame(step);
    case Step::Kind::kLost:
      add_row(Row::Kind::kLost, step.packet, "did not arrive");
      return;
    case Step::Kind::kExtra:
      return expect_extra(step);
    case Step::Kind::kRecv:
    case Step::Kind::kSend:
    case Step::Kind::kStore:
    case Step::Kind::kModify:
      return act(step);
  }
}

// ---- What happens to the device ----

void Player::fire_timers() {
  const bool idle = !outbox_.engine_wants_to_send(now_);
  stage_.device().on_timeout(now_);
  stage_.take_events();
  if (idle && outbox_.engine_wants_to_send(now_)) woken_at_ = now_;
}

// An engine that waits to be asked for a packet winds its timer up again and again. What else it
// has to do when timers run out, it has done after so many of them: the rest of a pause is skipped.
void Player::advance(Timestamp to) {
  for (size_t fired = 0; fired < kMostTimers && stage_.device().next_timeout() <= to; ++fired) {
    now_ = std::max(now_, stage_.device().next_timeout());
    fire_timers();
  }
  now_ = std::max(now_, to);
  if (stage_.device().next_timeout() <= to) fire_timers();
}

void Player::act(const Step& step) {
  add_row(Row::Kind::kAction, 0, action_text(case_, step));
  if (step.kind == Step::Kind::kRecv) {
    stage_.post_recv(step.index, now_);
  } else if (step.kind == Step::Kind::kSend) {
    stage_.post_send(step.index, now_);
  } else if (step.kind == Step::Kind::kStore) {
    stage_.store(step.index);
  } else {
    stage_.modify(step.index, now_);
  }
  stage_.take_events();
}

std::optional<size_t> Player::receiver_of(const ParsedPacket& packet) const {
  for (size_t i = 0; i < case_.qps.size(); ++i) {
    if (case_.qps[i].qpn == packet.dest_qpn) return i;
  }
  return std::nullopt;
}

void Player::note_frame(const Step& step, size_t qp) {
  states_[qp].last_frame = now_;
  states_[qp].last_in_capture = step.time;
}

void Player::note_played(const ParsedPacket& packet, size_t qp) {
  QpState& state = states_[qp];
  if (packet.info->operation == Operation::kAcknowledge &&
      syndrome_kind(packet.syndrome) == SyndromeKind::kRnrNak) {
    state.rnr_code = syndrome_value(packet.syndrome);
  }
  if (packet.info->is_response() || packet.info->transport != Transport::kRc) return;
  const bool is_read = packet.info->operation == Operation::kReadRequest;
  const bool in_order = !state.expected_psn || *state.expected_psn == packet.psn;
  const uint32_t mtu = mtu_bytes(case_.qps[qp].path_mtu);
  const uint32_t psns = is_read ? std::max(1U, (packet.dma_length + mtu - 1) / mtu) : 1;
  if (in_order) state.expected_psn = packet.psn + psns;
  if (packet.ack_req) state.owes_answer = true;
  if (packet.ack_req || is_read || !in_order) outbox_.fill_answer(qp, now_);
  if (outbox_.take_answered(qp)) state.owes_answer = false;
}

void Player::play_frame(const Step& step) {
  woken_at_.reset();
  const std::vector<uint8_t>& captured = capture_.frames[step.index].bytes;
  add_row(Row::Kind::kPlayed, step.packet);
  const auto parsed = wire::parse(captured);
  const auto* packet = std::get_if<ParsedPacket>(&parsed);
  const auto qp =
      packet != nullptr && wire::icrc_valid(*packet) ? receiver_of(*packet) : std::nullopt;
  if (qp) (void)outbox_.take_answered(*qp);
  outbox_.play(stage_.for_engine(captured), now_);
  if (!qp) return;
  note_frame(step, *qp);
  note_played(*packet, *qp);
}

// ---- What the device must send ----

Row& Player::add_row(Row::Kind kind, uint32_t packet, std::string note) {
  result_.rows.push_back({kind, now_ - kBegin, packet, {}, {}, std::move(note)});
  return result_.rows.back();
}

// Lets time pass until a timer makes the engine send. `in_capture` is the wait of the capture.
bool Player::wait_for(Stream stream, DurationNs in_capture) {
  const QpState& state = states_[stream.qp];
  DurationNs longest = in_capture;
  if (!stream.responses && state.rnr_code) {
    longest = std::max(longest, rnr_delay(*state.rnr_code));
  }
  const Timestamp limit = state.last_frame + times(longest, case_.compare.timer_tolerance) + kSlack;
  while (!outbox_.fill(stream, now_)) {
    const Timestamp next = stage_.device().next_timeout();
    if (next > limit) return false;
    now_ = std::max(now_, next);
    fire_timers();
  }
  return true;
}

// What was sent again because of a timer must not come too early.
void Player::check_time(const Step& step, const SentPacket& ours, Stream stream) {
  QpState& state = states_[stream.qp];
  const bool again = state.next_to_send && ours.packet.psn.before(*state.next_to_send);
  if (!again || !woken_at_) return;
  const DurationNs waited = *woken_at_ > state.last_frame ? *woken_at_ - state.last_frame : 0;
  const DurationNs in_capture = step.time - state.last_in_capture;
  DurationNs least = times(in_capture, 1 / case_.compare.timer_tolerance);
  if (state.rnr_code) least = std::min(least, rnr_delay(*state.rnr_code));
  woken_at_.reset();  // what follows goes with it
  if (waited + kSlack >= least) return;
  add_row(Row::Kind::kUntimely, step.packet,
          fmt::format("sent again after {}; at least {} must pass", milliseconds(waited),
                      milliseconds(least)));
}

void Player::match(const Step& step, const ParsedPacket& capture, Stream stream) {
  SentPacket ours = std::move(outbox_.of(stream).front());
  outbox_.of(stream).pop_front();
  if (!stream.responses) {
    check_time(step, ours, stream);
    QpState& state = states_[stream.qp];
    if (!state.next_to_send || !ours.packet.psn.before(*state.next_to_send)) {
      state.next_to_send = ours.packet.psn + 1;
    } else {
      state.rnr_code.reset();
    }
  }
  Row& row = add_row(Row::Kind::kSame, step.packet);
  if (!holds(case_.network.corrupted, step.packet)) {
    row.mismatches = compare(capture, ours.packet, exceptions_of(case_, step.packet));
  }
  if (!row.mismatches.empty()) row.kind = Row::Kind::kDifferent;
  row.ours = std::move(ours.frame);
}

// ACKs of ours that the capture has not, and that speak for requests before `before`.
void Player::allow_early_acks(Stream stream, const ParsedPacket& before) {
  std::deque<SentPacket>& sent = outbox_.of(stream);
  while (outbox_.fill(stream, now_)) {
    const ParsedPacket& ours = sent.front().packet;
    if (!is_ack(ours) || !ours.psn.before(before.psn)) return;
    Row& row = add_row(Row::Kind::kAllowed, 0, "an ACK of its own (RC-RSP-40)");
    row.ours = std::move(sent.front().frame);
    sent.pop_front();
  }
}

// An ACK of the capture that may be absent. True: it is dealt with.
bool Player::expect_ack(const Step& step, const ParsedPacket& capture, Stream stream) {
  allow_early_acks(stream, capture);
  if (!outbox_.fill(stream, now_)) {
    if (outbox_.take_answered(stream.qp)) states_[stream.qp].owes_answer = false;
    if (states_[stream.qp].owes_answer) return false;
    add_row(Row::Kind::kCovered, step.packet, "all that asked for an ACK was answered (RC-RSP-40)");
    return true;
  }
  const ParsedPacket& ours = outbox_.of(stream).front().packet;
  if (is_ack(ours) && ours.psn == capture.psn) return false;
  if (acknowledged_by(ours).before(capture.psn)) return false;
  add_row(Row::Kind::kCovered, step.packet, "a later answer speaks for it (RC-RSP-40)");
  return true;
}

void Player::expect_frame(const Step& step) {
  const auto parsed = wire::parse(capture_.frames[step.index].bytes);
  const ParsedPacket& capture = *std::get_if<ParsedPacket>(&parsed);
  const Stream stream{*sender_of(case_, capture), capture.info->is_response()};
  const DurationNs in_capture = step.time - states_[stream.qp].last_in_capture;
  if (const Difference* difference = not_sent(case_, step.packet)) {
    add_row(Row::Kind::kCovered, step.packet,
            fmt::format("{}: {}", difference->rule, difference->why));
    return;
  }
  if (stream.responses && !case_.compare.exact_acks) {
    if (!is_ack(capture)) {
      allow_early_acks(stream, capture);
    } else if (expect_ack(step, capture, stream)) {
      return note_frame(step, stream.qp);
    }
  }
  const bool optional = holds(case_.compare.optional, step.packet);
  if (optional ? !outbox_.fill(stream, now_) : !wait_for(stream, in_capture)) {
    add_row(optional ? Row::Kind::kCovered : Row::Kind::kMissing, step.packet,
            optional ? "may be left out" : "the engine sends nothing");
    return;
  }
  const ParsedPacket& ours = outbox_.of(stream).front().packet;
  if (optional && (ours.psn != capture.psn || ours.opcode != capture.opcode)) {
    add_row(Row::Kind::kCovered, step.packet, "may be left out");
    return;
  }
  match(step, capture, stream);
  shift_ = std::max(shift_, now_ - kBegin > step.time ? now_ - kBegin - step.time : 0);
  note_frame(step, stream.qp);
}

void Player::expect_extra(const Step& step) {
  const Extra& extra = script_.extras[step.index];
  ParsedPacket wanted;
  size_t qp = 0;
  const auto frame = wire::parse(capture_.frames[step.packet - 1].bytes);
  if (const auto* after = std::get_if<ParsedPacket>(&frame)) {
    qp = sender_of(case_, *after).value_or(receiver_of(*after).value_or(0));
  }
  for (const FieldValue& field : extra.fields) {
    if (field.field == "opcode") wanted.info = &opcode_info(static_cast<uint8_t>(field.value));
    if (field.field == "psn") wanted.psn = Psn(static_cast<uint32_t>(field.value));
  }
  const Stream stream{qp, wanted.info->is_response()};
  if (stream.responses && !case_.compare.exact_acks) allow_early_acks(stream, wanted);
  if (!wait_for(stream, 0)) {
    add_row(Row::Kind::kMissing, 0,
            "the engine does not send what the capture has not: " + extra.why);
    return;
  }
  SentPacket ours = std::move(outbox_.of(stream).front());
  outbox_.of(stream).pop_front();
  Row& row = add_row(Row::Kind::kAllowed, 0, extra.why);
  for (const FieldValue& field : extra.fields) {
    const auto value = field_value(ours.packet, field.field);
    if (value == field.value) continue;
    row.kind = Row::Kind::kDifferent;
    row.mismatches.push_back({field.field, field_text(field.field, field.value),
                              value ? field_text(field.field, *value) : "absent", value});
  }
  row.ours = std::move(ours.frame);
}

// Lets the engine go on by itself.
void Player::run_out() {
  const Timestamp limit = now_ + kLongestEnd;
  size_t sent = 0;
  outbox_.fill_all(now_);
  while (stage_.device().next_timeout() <= limit && sent < kMostExtras) {
    now_ = std::max(now_, stage_.device().next_timeout());
    fire_timers();
    outbox_.fill_all(now_);
    sent = 0;
    for (size_t qp = 0; qp < case_.qps.size(); ++qp) sent += outbox_.of({qp, false}).size();
  }
}

void Player::finish() {
  if (case_.until_idle) run_out();
  for (size_t i = 0; i < 2 * case_.qps.size(); ++i) {
    for (SentPacket& ours : outbox_.of({i / 2, i % 2 != 0})) {
      const bool allowed = is_ack(ours.packet) && !case_.compare.exact_acks;
      Row& row = allowed ? add_row(Row::Kind::kAllowed, 0, "an ACK of its own (RC-RSP-40)")
                         : add_row(Row::Kind::kExtra, 0, "the capture has no such packet");
      row.time = ours.time - kBegin;
      row.ours = std::move(ours.frame);
    }
  }
}

}  // namespace verbena::conformance
