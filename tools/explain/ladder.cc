#include "tools/explain/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/explain/fold.h"

namespace verbena::explain {
namespace {

using trace::Connection;
using trace::Index;
using trace::kNoIndex;
using trace::Trace;

// More connections than this get a ladder each: the columns would leave no room for the arrows.
constexpr size_t kMostTogether = 4;

bool chosen(const Selection& selection, const Trace& trace, Index connection) {
  if (selection.qpns.empty()) return true;
  if (connection == kNoIndex) return false;
  const auto& sides = trace.connections[connection].sides;
  return std::any_of(selection.qpns.begin(), selection.qpns.end(),
                     [&](Qpn qpn) { return sides[0].qpn == qpn || sides[1].qpn == qpn; });
}

std::vector<Index> select(const Trace& trace, const Selection& selection) {
  std::vector<Index> selected;
  for (Index i = 0; i < trace.packets.size() && selected.size() < selection.count; ++i) {
    const trace::TracedPacket& traced = trace.packets[i];
    if (traced.number < selection.from || !chosen(selection, trace, traced.connection)) continue;
    selected.push_back(i);
  }
  return selected;
}

// The columns of one ladder. Hosts are put to a side when they are first seen, and stay there where
// that is possible.
class Columns {
 public:
  explicit Columns(Ladder& ladder) : ladder_(ladder) {}

  void add(const Connection& connection, Index index) {
    Lane lane;
    lane.connection = index;
    const Gid& first = connection.sides[0].gid;
    const Gid& second = connection.sides[1].gid;
    if (right_hosts_.contains(first) && !right_hosts_.contains(second)) lane.left_side = 1;
    const trace::Endpoint& left = connection.sides[lane.left_side];
    const trace::Endpoint& right = connection.sides[1 - lane.left_side];
    lane.left = column(ladder_.left, left, index);
    lane.right = column(ladder_.right, right, index);
    right_hosts_.insert(right.gid);
    ladder_.lanes.push_back(lane);
  }

 private:
  // A queue pair of datagrams has one column for all its peers. Unknown ones are never the same.
  static size_t column(std::vector<Column>& columns, const trace::Endpoint& end, Index connection) {
    const auto same = [&](const Column& column) {
      return end.qpn && column.gid == end.gid && column.qpn == end.qpn;
    };
    const auto found = std::find_if(columns.begin(), columns.end(), same);
    const auto at = static_cast<size_t>(found - columns.begin());
    if (found == columns.end()) columns.push_back({end.gid, end.qpn, connection});
    return at;
  }

  Ladder& ladder_;
  std::set<Gid> right_hosts_;
};

}  // namespace

std::vector<std::string> Bundle::details() const {
  std::vector<std::string> details;
  if (payload_bytes > 0) details.push_back(fmt::format("{} B in all", payload_bytes));
  if (again) details.emplace_back("again");
  return details;
}

const Lane* Ladder::lane_of(Index connection) const {
  const auto found =
      std::lower_bound(lanes.begin(), lanes.end(), connection,
                       [](const Lane& lane, Index index) { return lane.connection < index; });
  return found != lanes.end() && found->connection == connection ? &*found : nullptr;
}

Picture draw(const Trace& trace, const Selection& selection) {
  Picture picture;
  picture.selected = select(trace, selection);
  for (Index i = 0; i < trace.connections.size(); ++i) {
    if (chosen(selection, trace, i)) picture.connections.push_back(i);
  }
  std::map<Index, std::vector<Index>> by_connection;
  for (const Index i : picture.selected) {
    by_connection[trace.packets[i].connection].push_back(i);
  }
  const auto strays = by_connection.extract(kNoIndex);
  if (!strays.empty()) picture.strays = fold(trace, strays.mapped(), selection.all);
  if (by_connection.empty()) return picture;
  if (by_connection.size() > kMostTogether) {
    for (const auto& [connection, packets] : by_connection) {
      Ladder& ladder = picture.ladders.emplace_back();
      Columns(ladder).add(trace.connections[connection], connection);
      ladder.rows = fold(trace, packets, selection.all);
    }
    return picture;
  }
  Ladder& ladder = picture.ladders.emplace_back();
  Columns columns(ladder);
  std::vector<Index> all;
  for (const auto& [connection, packets] : by_connection) {
    columns.add(trace.connections[connection], connection);
    all.insert(all.end(), packets.begin(), packets.end());
  }
  std::sort(all.begin(), all.end());
  ladder.rows = fold(trace, all, selection.all);
  return picture;
}

}  // namespace verbena::explain
