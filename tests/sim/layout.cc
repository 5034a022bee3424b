#include <algorithm>

#include "tests/sim/plan_parts.h"
#include "tools/sim/random.h"

namespace verbena::sim {
namespace {

constexpr uint32_t kGap = 8;  // bytes between slices, and before the first

class Layout {
 public:
  Slice take(uint32_t bytes) {
    const Slice slice{next_, bytes};
    next_ += bytes + kGap;
    return slice;
  }
  uint64_t end() const { return next_; }

 private:
  uint64_t next_ = kGap;
};

std::vector<Slice> split(const Slice& whole, Random& random, bool several) {
  std::vector<Slice> pieces;
  Slice rest = whole;
  const uint32_t most = several ? random.between(1, 4) : 1;
  while (pieces.size() + 1 < most && rest.bytes != 0) {
    const uint32_t part = random.between(0, rest.bytes);
    pieces.push_back({rest.offset, part});
    rest = {rest.offset + part, rest.bytes - part};
  }
  if (rest.bytes != 0 || random.chance(500)) pieces.push_back(rest);
  return pieces;
}

void lay_out_operation(Plan& plan, std::vector<Layout>& layouts, const EndPlan& end, Operation& op,
                       bool several) {
  Random random(plan.seed, kOp + op.number);
  op.from = layouts[end.station].take(op.bytes);
  op.local = split(op.from, random, several);
  if (end.type == QpType::kUd) return;
  const EndPlan& peer = plan.ends[end.peer];
  Layout& there = layouts[peer.station];
  if (!op.is_send()) op.remote = op.reads_back ? (&op - 1)->remote : there.take(op.bytes);
  if (!op.consumes_receive() || peer.shares_receives) return;
  uint32_t bytes = op.is_send() ? op.bytes + op.slack : op.slack;
  if (op.flaw == Flaw::kShortReceive) bytes = random.between(0, op.bytes - 1);
  op.receive = there.take(bytes);
  op.receive_sges = split(op.receive, random, several);
}

// Datagrams and shared receive queues: buffers alike, one for each message that may come. Network
// copies may make it more: those find no receive, which is legal for datagrams and not for others.
void lay_out_receives(Plan& plan, std::vector<Layout>& layouts) {
  struct Need {
    uint32_t count = 0;
    uint32_t bytes = 0;
    void add(uint32_t size) {
      ++count;
      bytes = std::max(bytes, size);
    }
  };
  std::vector<Need> shared(plan.stations.size());
  std::vector<Need> own(plan.ends.size());
  for (const EndPlan& end : plan.ends) {
    for (const Operation& op : end.ops) {
      const bool datagram = end.type == QpType::kUd;
      if (!op.consumes_receive()) continue;
      const uint32_t to = datagram ? op.to : end.peer;
      const uint32_t bytes = (op.is_send() ? op.bytes : 0) + (datagram ? kGrhBytes : 0);
      if (plan.ends[to].shares_receives) {
        shared[plan.ends[to].station].add(bytes);
      } else if (datagram) {
        own[to].add(bytes);
      }
    }
  }
  for (size_t i = 0; i < plan.stations.size(); ++i) {
    plan.stations[i].shared_bytes = shared[i].bytes;
    for (uint32_t n = 0; n < shared[i].count; ++n) {
      plan.stations[i].shared_receives.push_back(layouts[i].take(shared[i].bytes));
    }
  }
  for (size_t i = 0; i < plan.ends.size(); ++i) {
    EndPlan& end = plan.ends[i];
    for (uint32_t n = 0; n < own[i].count; ++n) {
      end.datagram_receives.push_back(layouts[end.station].take(own[i].bytes));
    }
  }
}

}  // namespace

void lay_out(Plan& plan, const Reduction& reduction) {
  std::vector<Layout> layouts(plan.stations.size());
  for (EndPlan& end : plan.ends) {
    if (end.ops.empty()) continue;
    end.ops.back().flags |= abi::kWrSignaled;
    end.active = true;
    if (end.type == QpType::kRc) plan.ends[end.peer].active = true;
    for (Operation& op : end.ops) {
      lay_out_operation(plan, layouts, end, op, reduction.has(Feature::kSplit));
      if (end.type == QpType::kUd) plan.ends[op.to].active = true;
    }
  }
  lay_out_receives(plan, layouts);
  for (size_t i = 0; i < layouts.size(); ++i) plan.stations[i].memory_bytes = layouts[i].end();
}

}  // namespace verbena::sim
