#include "tools/conformance/script.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/conformance/frame_edit.h"
#include "tools/conformance/names.h"
#include "tools/conformance/packets.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// Part of the file format: captures hold these bytes.
uint8_t pattern_byte(uint32_t seed, size_t index) {
  return static_cast<uint8_t>((static_cast<uint32_t>(index) * 0x9E3779B1U + seed * 0x85EBCA6BU) >>
                              24);
}

bool is_qp_of(const Case& c, Qpn qpn) {
  return std::any_of(c.qps.begin(), c.qps.end(),
                     [&](const QpSection& qp) { return qp.qpn == qpn; });
}

// What a frame is to the case.
std::optional<Step::Kind> kind_of(const Case& c, const std::vector<uint8_t>& frame) {
  const auto parsed = wire::parse(frame);
  if (const auto* packet = std::get_if<ParsedPacket>(&parsed)) {
    if (sender_of(c, *packet)) return Step::Kind::kSent;
    const bool for_us = packet->dest_gid == c.device.gid && is_qp_of(c, packet->dest_qpn);
    if (for_us) return Step::Kind::kPlay;
    const bool from_us = packet->source_gid == c.device.gid;
    return c.play_all && !from_us ? std::optional(Step::Kind::kPlay) : std::nullopt;
  }
  // What cannot be read is told by its MAC addresses.
  if (frame.size() < 14 ||
      std::equal(c.device.mac.bytes.begin(), c.device.mac.bytes.end(), frame.begin() + 6)) {
    return std::nullopt;
  }
  const auto qpn = dest_qpn_of(frame);
  if (c.play_all || (qpn && is_qp_of(c, *qpn))) return Step::Kind::kPlay;
  return std::nullopt;
}

class ScriptMaker {
 public:
  ScriptMaker(const Case& c, const trace::Capture& capture) : case_(c), capture_(capture) {}

  Script make() {
    check_packets();
    for (size_t frame = 0; frame < capture_.frames.size(); ++frame) add_frame(frame);
    check_frames();
    move_late();
    add_extras();
    add_actions();
    return std::move(script_);
  }

 private:
  bool in_range(uint32_t packet) const {
    return packet >= case_.first_packet && (case_.last_packet == 0 || packet <= case_.last_packet);
  }
  void check_packet(uint32_t packet, const char* where) const;
  void check_packets() const;
  void add_frame(size_t frame);
  void check_frames() const;
  void move_late();
  void add_extra(const ExtraPacket& packet, std::string why);
  void add_extras();
  void add_actions();
  struct Place {
    size_t before;  // position of a step
    DurationNs time;
  };
  [[nodiscard]] Place place_of(const When& when) const;

  const Case& case_;
  const trace::Capture& capture_;
  Script script_;
  std::vector<uint32_t> newest_;  // for each step the highest number up to it
  std::optional<Timestamp> begin_;
};

void ScriptMaker::check_packet(uint32_t packet, const char* where) const {
  if (packet >= 1 && packet <= capture_.frames.size()) return;
  throw tools::CommandError(
      fmt::format("{}: {} names packet {}, but {} has {}", case_.file.string(), where, packet,
                  case_.capture.string(), capture_.frames.size()),
      "a packet's number as Wireshark shows it");
}

void ScriptMaker::check_packets() const {
  const auto check_after = [&](uint32_t packet, const char* where) {
    if (packet != 0) check_packet(packet, where);
  };
  const auto check_when = [&](const When& when, const char* where) {
    check_after(when.packet, where);
  };
  const auto check_all = [&](const std::vector<uint32_t>& packets, const char* where) {
    for (const uint32_t packet : packets) check_packet(packet, where);
  };
  const auto check_data = [&](const Data& data, const char* where) {
    check_all(data.packets, where);
  };
  if (case_.last_packet != 0) check_packet(case_.last_packet, "packets");
  for (const RecvSection& recv : case_.recvs) {
    check_when(recv.when, "[[recv]]");
    if (recv.expect) check_data(*recv.expect, "[[recv]] expect");
  }
  for (const SendSection& send : case_.sends) {
    check_when(send.when, "[[send]]");
    check_data(send.data, "[[send]] data");
    if (send.expect) check_data(*send.expect, "[[send]] expect");
  }
  for (const StoreSection& store : case_.stores) {
    check_when(store.when, "[[store]]");
    check_data(store.piece.data, "[[store]] data");
  }
  for (const ModifySection& modify : case_.modifies) check_when(modify.when, "[[modify]]");
  for (const MemorySection& memory : case_.memories) {
    for (const Piece& piece : memory.contents) check_data(piece.data, "[[memory]] contents");
    for (const Piece& piece : memory.expect) check_data(piece.data, "[[memory]] expect");
  }
  check_all(case_.network.lost, "[network] lost");
  check_all(case_.network.repeated, "[network] repeated");
  check_all(case_.network.corrupted, "[network] corrupted");
  check_all(case_.network.copied, "[network] copied");
  for (const ExtraPacket& packet : case_.network.unseen)
    check_after(packet.after, "[network] unseen");
  check_all(case_.compare.optional, "[compare] optional");
  for (const Ignored& ignored : case_.compare.ignored)
    check_all(ignored.packets, "[compare] ignore");
  for (const auto& [packet, after] : case_.network.late) check_packet(after, "[network] late");
  for (const Difference& difference : case_.differences) {
    check_all(difference.packets, "[[difference]]");
    check_after(difference.extra.after, "[[difference]] after");
  }
}

void ScriptMaker::add_frame(size_t frame) {
  const uint32_t number = number_of(frame);
  if (!in_range(number)) return;
  const auto kind = kind_of(case_, capture_.frames[frame].bytes);
  if (!kind || holds(case_.network.copied, number)) return;
  const Timestamp time = capture_.frames[frame].time;
  if (!begin_) begin_ = time;
  // Captures of several queues may not be in the order of time; their order counts.
  script_.length = std::max(script_.length, time > *begin_ ? time - *begin_ : 0);
  Step step{*kind, frame, number, script_.length};
  if (*kind == Step::Kind::kPlay && holds(case_.network.lost, number))
    step.kind = Step::Kind::kLost;
  script_.steps.push_back(step);
  if (step.kind == Step::Kind::kPlay && holds(case_.network.repeated, number)) {
    script_.steps.push_back(step);
  }
}

void ScriptMaker::check_frames() const {
  if (!script_.steps.empty()) return;
  throw tools::CommandError(
      fmt::format("{}: no packet of {} is one that its queue pairs send or get",
                  case_.file.string(), case_.capture.string()),
      "look at the ip of [device], and at the qpn and the peer of each [[qp]]");
}

void ScriptMaker::move_late() {
  const auto find = [&](uint32_t packet) {
    return std::find_if(script_.steps.begin(), script_.steps.end(),
                        [&](const Step& step) { return step.packet == packet; });
  };
  // From the last one on: those that come behind the same packet keep their order.
  const auto& late = case_.network.late;
  for (auto entry = late.rbegin(); entry != late.rend(); ++entry) {
    const auto [packet, after] = *entry;
    const auto from = find(packet);
    const auto to = find(after);
    if (from == script_.steps.end() || to == script_.steps.end()) continue;
    Step step = *from;
    step.time = to->time;
    script_.steps.insert(to + 1, step);  // behind `from`, which stays where it is
    script_.steps.erase(find(packet));
  }
}

void ScriptMaker::add_extra(const ExtraPacket& packet, std::string why) {
  auto place = script_.steps.begin();
  for (auto step = place; step != script_.steps.end(); ++step) {
    if (step->packet <= packet.after) place = step + 1;
  }
  const DurationNs time = place != script_.steps.begin() ? (place - 1)->time : 0;
  script_.steps.insert(place, {Step::Kind::kExtra, script_.extras.size(), packet.after, time});
  script_.extras.push_back({packet.fields, std::move(why)});
}

void ScriptMaker::add_extras() {
  for (const ExtraPacket& packet : case_.network.unseen) {
    add_extra(packet, "lost before the capture's place");
  }
  for (const Difference& difference : case_.differences) {
    if (difference.kind != Difference::Kind::kExtra) continue;
    add_extra(difference.extra, fmt::format("{}: {}", difference.rule, difference.why));
  }
}

// The step before which something is done, and when that is. Steps are those of frames, and are in
// the order of their numbers but for what arrived late.
ScriptMaker::Place ScriptMaker::place_of(const When& when) const {
  const std::vector<Step>& steps = script_.steps;
  const auto index = [&](auto place) { return static_cast<size_t>(place - steps.begin()); };
  switch (when.kind) {
    case When::Kind::kStart:
      break;
    case When::Kind::kBefore: {
      const auto place = std::lower_bound(newest_.begin(), newest_.end(), when.packet);
      const auto at = static_cast<size_t>(place - newest_.begin());
      return {at, at < steps.size() ? steps[at].time : script_.length};
    }
    case When::Kind::kAfter: {
      const auto place = std::upper_bound(newest_.begin(), newest_.end(), when.packet);
      const auto at = static_cast<size_t>(place - newest_.begin());
      return {at, at != 0 ? steps[at - 1].time : 0};
    }
    case When::Kind::kAt: {
      const auto place = std::find_if(steps.begin(), steps.end(),
                                      [&](const Step& s) { return s.time >= when.at; });
      return {index(place), when.at};
    }
  }
  return {0, 0};
}

// Behind the frame that they come after, in the order: stores, receives, sends, changes of state.
void ScriptMaker::add_actions() {
  for (const Step& step : script_.steps) {
    newest_.push_back(std::max(step.packet, newest_.empty() ? 0 : newest_.back()));
  }
  std::vector<std::pair<size_t, Step>> actions;
  const auto add_all = [&](const auto& sections, Step::Kind kind) {
    for (size_t i = 0; i < sections.size(); ++i) {
      const Place place = place_of(sections[i].when);
      actions.push_back({place.before, {kind, i, 0, place.time}});
      script_.length = std::max(script_.length, place.time);
    }
  };
  add_all(case_.stores, Step::Kind::kStore);
  add_all(case_.recvs, Step::Kind::kRecv);
  add_all(case_.sends, Step::Kind::kSend);
  add_all(case_.modifies, Step::Kind::kModify);
  std::stable_sort(actions.begin(), actions.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.time) < std::pair(b.first, b.second.time);
  });
  std::vector<Step> merged;
  auto action = actions.begin();
  for (size_t i = 0; i <= script_.steps.size(); ++i) {
    for (; action != actions.end() && action->first == i; ++action) {
      merged.push_back(action->second);
    }
    if (i < script_.steps.size()) merged.push_back(script_.steps[i]);
  }
  script_.steps = std::move(merged);
}

}  // namespace

Script make_script(const Case& c, const trace::Capture& capture) {
  return ScriptMaker(c, capture).make();
}

std::optional<size_t> sender_of(const Case& c, const ParsedPacket& packet) {
  if (packet.source_gid != c.device.gid) return std::nullopt;
  for (size_t i = 0; i < c.qps.size(); ++i) {
    const QpSection& qp = c.qps[i];
    if (qp.type == QpType::kUd) {
      if (packet.info->has_deth && packet.source_qpn == qp.qpn) return i;
    } else if (packet.info->transport == Transport::kRc && packet.dest_qpn == qp.peer.qpn &&
               packet.dest_gid == qp.peer.gid) {
      return i;
    }
  }
  return std::nullopt;
}

size_t natural_size(const Data& data, const trace::Capture& capture) {
  size_t bytes = data.bytes.size();
  for (const uint32_t packet : data.packets) {
    const auto parsed = wire::parse(capture.frames[packet - 1].bytes);
    if (const auto* good = std::get_if<ParsedPacket>(&parsed)) bytes += good->payload.size();
  }
  return bytes;
}

std::vector<uint8_t> resolve(const Data& data, size_t bytes, const trace::Capture& capture) {
  std::vector<uint8_t> all = data.bytes;
  for (const uint32_t packet : data.packets) {
    const auto parsed = wire::parse(capture.frames[packet - 1].bytes);
    const auto* good = std::get_if<ParsedPacket>(&parsed);
    if (good != nullptr) all.insert(all.end(), good->payload.begin(), good->payload.end());
  }
  if (bytes == 0) return all;
  all.resize(bytes);
  if (data.kind == Data::Kind::kPattern) {
    for (size_t i = 0; i < bytes; ++i) all[i] = pattern_byte(data.seed, i);
  }
  return all;
}

}  // namespace verbena::conformance
