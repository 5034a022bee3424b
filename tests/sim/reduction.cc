#include <algorithm>
#include <array>

#include "tests/sim/plan_parts.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kFeatures = static_cast<uint32_t>(Feature::kCount);
constexpr std::array<std::string_view, kFeatures> kNames = {
    "drop",      "duplicate", "corrupt", "truncate", "reorder", "jitter",
    "blackhole", "bandwidth", "delay",   "sink",     "later",   "fault",
    "gone",      "cut",       "late",    "flaw",     "shared",  "split"};

void reduce_link(LinkConfig& link, const Reduction& reduction) {
  Faults& faults = link.faults;
  if (!reduction.has(Feature::kDrop)) faults.drop_ppm = 0;
  if (!reduction.has(Feature::kDuplicate)) faults.duplicate_ppm = 0;
  if (!reduction.has(Feature::kCorrupt)) faults.corrupt_ppm = 0;
  if (!reduction.has(Feature::kTruncate)) faults.truncate_ppm = 0;
  if (!reduction.has(Feature::kReorder)) faults.reorder_ppm = 0;
  if (!reduction.has(Feature::kJitter)) faults.jitter = 0;
  if (!reduction.has(Feature::kBlackhole)) faults.blackhole_from = faults.blackhole_until = kNever;
  if (!reduction.has(Feature::kBandwidth)) link.bits_per_second = 0;
  if (!reduction.has(Feature::kDelay)) link.delay = 0;
}

Feature feature_of(Incident::Kind kind) {
  switch (kind) {
    case Incident::Kind::kError:
    case Incident::Kind::kDestroy:
      return Feature::kCut;
    case Incident::Kind::kFault:
      return Feature::kFault;
    case Incident::Kind::kGone:
      return Feature::kGone;
  }
  return Feature::kCut;
}

}  // namespace

void reduce(Plan& plan, const Reduction& reduction) {
  for (StationPlan& station : plan.stations) {
    reduce_link(station.up, reduction);
    reduce_link(station.down, reduction);
  }
  if (!reduction.has(Feature::kSink)) plan.sink_capacity = UINT32_MAX;
  if (!reduction.has(Feature::kLater)) plan.later = 0;
  std::erase_if(plan.incidents,
                [&](const Incident& i) { return !reduction.has(feature_of(i.kind)); });
  plan.late = plan.late && reduction.has(Feature::kLate);
  for (EndPlan& end : plan.ends) {
    if (!reduction.has(Feature::kShared)) end.shares_receives = end.shares_cq = false;
    if (reduction.ops) {
      std::erase_if(end.ops, [&](const Operation& op) {
        return !std::binary_search(reduction.ops->begin(), reduction.ops->end(), op.number);
      });
    }
    for (size_t i = 0; i < end.ops.size(); ++i) {
      Operation& op = end.ops[i];
      // Without its WRITE it is a READ like others.
      op.reads_back = op.reads_back && i != 0 && end.ops[i - 1].number + 1 == op.number;
      if (op.reads_back) end.ops[i - 1].read_back = true;
      op.bytes = std::min(op.bytes, reduction.max_bytes);
      op.slack = std::min(op.slack, reduction.max_bytes);
      if (!reduction.has(Feature::kFlaw) || (op.flaw != Flaw::kNone && op.bytes == 0)) {
        op.flaw = Flaw::kNone;
      }
    }
  }
}

std::string_view feature_name(Feature feature) {
  return kNames[static_cast<size_t>(feature)];
}

std::optional<Feature> feature_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Feature>(found - kNames.begin());
}

std::string Reduction::text() const {
  std::string text;
  const char* separator = " --without ";
  for (uint32_t i = 0; i < kFeatures; ++i) {
    if (has(static_cast<Feature>(i))) continue;
    text.append(separator).append(kNames[i]);
    separator = ",";
  }
  if (ops) {
    separator = " --only ";
    for (const uint32_t op : *ops) {
      text += separator + std::to_string(op);
      separator = ",";
    }
  }
  if (max_bytes != UINT32_MAX) text += " --max-bytes " + std::to_string(max_bytes);
  return text;
}

bool is_remote(Flaw flaw) {
  return flaw == Flaw::kBadRkey || flaw == Flaw::kNoAccess || flaw == Flaw::kShortReceive ||
         flaw == Flaw::kBadReceive;
}

abi::WcStatus status_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return abi::WcStatus::kSuccess;
    case Flaw::kBadRkey:
    case Flaw::kNoAccess:
      return abi::WcStatus::kRemAccess;
    case Flaw::kBadLkey:
      return abi::WcStatus::kLocProt;
    case Flaw::kBadOpcode:
    case Flaw::kBadHandle:
      return abi::WcStatus::kLocQpOp;
    case Flaw::kTooLong:
      return abi::WcStatus::kLocLen;
    case Flaw::kShortReceive:
      return abi::WcStatus::kRemInvReq;
    case Flaw::kBadReceive:
      return abi::WcStatus::kRemOp;
  }
  return abi::WcStatus::kSuccess;
}

uint32_t Plan::operations() const {
  uint32_t count = 0;
  for (const EndPlan& end : ends) count += static_cast<uint32_t>(end.ops.size());
  return count;
}

template <typename Test>
bool Plan::any_link(Test&& test) const {
  if (topology == Topology::kIdeal) return false;
  return std::any_of(stations.begin(), stations.end(), [&](const StationPlan& station) {
    return test(station.up) || test(station.down);
  });
}

bool Plan::duplicates() const {
  return any_link([](const LinkConfig& link) { return link.faults.duplicate_ppm != 0; });
}

bool Plan::faulty() const {
  return any_link([](const LinkConfig& link) {
    const Faults& f = link.faults;
    return f.drop_ppm + f.duplicate_ppm + f.corrupt_ppm + f.truncate_ppm + f.reorder_ppm != 0 ||
           f.blackhole_from != kNever;
  });
}

bool Plan::may_give_up() const {
  constexpr uint32_t kMuch = 25'000;  // ppm, on one link
  return any_link([](const LinkConfig& link) {
    const Faults& f = link.faults;
    return f.drop_ppm + f.corrupt_ppm + f.truncate_ppm > kMuch ||
           f.blackhole_until - f.blackhole_from > kShortBlackhole;
  });
}

std::string Plan::text() const {
  static constexpr std::array<std::string_view, 3> kTopologies = {"ideal wire", "cable", "switch"};
  std::string text(kTopologies[static_cast<size_t>(topology)]);
  text += ", " + std::to_string(stations.size()) + " stations";
  const auto add = [&text](Feature feature, bool there) {
    if (there) text.append(" ").append(feature_name(feature));
  };
  add(Feature::kDrop, any_link([](const LinkConfig& l) { return l.faults.drop_ppm != 0; }));
  add(Feature::kDuplicate,
      any_link([](const LinkConfig& l) { return l.faults.duplicate_ppm != 0; }));
  add(Feature::kCorrupt, any_link([](const LinkConfig& l) { return l.faults.corrupt_ppm != 0; }));
  add(Feature::kTruncate, any_link([](const LinkConfig& l) { return l.faults.truncate_ppm != 0; }));
  add(Feature::kReorder, any_link([](const LinkConfig& l) { return l.faults.reorder_ppm != 0; }));
  add(Feature::kJitter, any_link([](const LinkConfig& l) { return l.faults.jitter != 0; }));
  add(Feature::kBlackhole,
      any_link([](const LinkConfig& l) { return l.faults.blackhole_from != kNever; }));
  add(Feature::kBandwidth, any_link([](const LinkConfig& l) { return l.bits_per_second != 0; }));
  add(Feature::kDelay, any_link([](const LinkConfig& l) { return l.delay != 0; }));
  add(Feature::kSink, sink_capacity != UINT32_MAX);
  add(Feature::kLater, later != 0);
  for (const Incident& incident : incidents) add(feature_of(incident.kind), true);
  add(Feature::kLate, late);
  return text;
}

}  // namespace verbena::sim
