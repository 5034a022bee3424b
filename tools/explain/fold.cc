#include "tools/explain/fold.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "tools/trace/wire_fate.h"

namespace verbena::explain {
namespace {

using trace::Index;
using trace::Trace;
using trace::TracedPacket;

// A run of alike packets shows its first and its last one; fewer between them are shown too.
constexpr std::ptrdiff_t kLeastAlike = 3;

bool same_reason(const TracedPacket& a, const TracedPacket& b) {
  return a.drop == b.drop && a.place == b.place && a.cause == b.cause && a.unheeded == b.unheeded &&
         (a.cause_packet == b.cause_packet || b.cause == trace::Cause::kTimeout);
}

// Whether `next` says nothing that `row` did not say: the same name, from the same sender, there
// for the same reason, with nothing of its own to tell.
bool alike(const Trace& trace, const Row& row, const Row& next) {
  const TracedPacket& a = trace.packets[row.packets.front()];
  const TracedPacket& b = trace.packets[next.packets.front()];
  if (!a.packet != !b.packet) return false;
  if (a.connection != b.connection || a.side != b.side || row.words.name != next.words.name) {
    return false;
  }
  if (!same_reason(a, b) || b.missing != 0 || fate_of(a) != fate_of(b)) return false;
  if (b.place == trace::Place::kAgain && !b.continues) return false;
  if (!a.packet) return true;
  if (a.packet->ecn != b.packet->ecn || row.words.tone != next.words.tone) return false;
  return a.packet->info->operation != Operation::kAcknowledge || row.words.note == next.words.note;
}

// Of the packets of a message together: "SEND" of "SEND First".
std::string message_name(const std::string& name) {
  for (const char* position : {" First", " Middle", " Last", " Only"}) {
    const size_t at = name.find(position);
    if (at != std::string::npos) return name.substr(0, at);
  }
  return name;
}

void add_bundle(const Trace& trace, const Row& row, std::vector<Bundle>& bundles) {
  const TracedPacket& traced = trace.packets[row.packets.front()];
  const bool again = traced.place == trace::Place::kAgain;
  auto found = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
    return bundle.connection == traced.connection && bundle.side == traced.side &&
           bundle.again == again && bundle.lost == row.words.lost &&
           message_name(bundle.name) == message_name(row.words.name);
  });
  if (found == bundles.end()) {
    Bundle bundle;
    bundle.connection = traced.connection;
    bundle.side = traced.side;
    bundle.name = row.words.name;
    bundle.first_psn = row.words.psn;
    bundle.tone = row.words.tone;
    bundle.again = again;
    bundle.lost = row.words.lost;
    found = bundles.insert(bundles.end(), std::move(bundle));
  }
  if (found->name != row.words.name) found->name = message_name(row.words.name);
  ++found->count;
  found->payload_bytes += traced.payload_bytes;
  found->last_psn = row.words.psn;
}

// Rows -> one row. Bundles of bundles are made from the packets again.
Row join(const Trace& trace, std::vector<Row>::iterator begin, std::vector<Row>::iterator end) {
  Row joined;
  for (auto row = begin; row != end; ++row) {
    if (!row->folded()) {
      add_bundle(trace, *row, joined.bundles);
      joined.packets.push_back(row->packets.front());
      continue;
    }
    for (const Index i : row->packets) {
      Row single;
      single.packets = {i};
      single.words = words_of(trace, trace.packets[i]);
      add_bundle(trace, single, joined.bundles);
      joined.packets.push_back(i);
    }
  }
  if (std::distance(begin, end) == 1) joined.words = begin->words;
  return joined;
}

std::vector<Row> fold_alike(const Trace& trace, std::vector<Row> rows) {
  std::vector<Row> folded;
  for (auto begin = rows.begin(); begin != rows.end();) {
    auto end = begin + 1;
    while (end != rows.end() && alike(trace, *begin, *end)) ++end;
    constexpr std::ptrdiff_t kEnds = 2;
    if (end - begin >= kEnds + kLeastAlike) {
      folded.push_back(std::move(*begin));
      folded.push_back(join(trace, begin + 1, end - 1));
      folded.push_back(std::move(*(end - 1)));
    } else {
      std::move(begin, end, std::back_inserter(folded));
    }
    begin = end;
  }
  return folded;
}

// What may be folded together.
enum class Sort { kEventful, kQuiet, kRepetition };

Sort sort_of(const Trace& trace, const Row& row) {
  const TracedPacket& traced = trace.packets[row.packets.front()];
  const PacketWords words = row.folded() ? words_of(trace, traced) : row.words;
  if (words.quiet()) return Sort::kQuiet;
  return traced.continues && words.note.empty() ? Sort::kRepetition : Sort::kEventful;
}

// A stretch of one sort is shown whole up to `longest` rows; else its begin and its end.
struct Shown {
  size_t longest;
  size_t begin;
  size_t end;
};

Shown shown_of(Sort sort) {
  switch (sort) {
    case Sort::kEventful:
      break;
    case Sort::kQuiet:
      return {40, 12, 4};
    case Sort::kRepetition:
      return {8, 2, 1};
  }
  return {std::numeric_limits<size_t>::max(), 0, 0};
}

std::vector<Row> fold_stretches(const Trace& trace, std::vector<Row> rows) {
  std::vector<Row> folded;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const Sort sort = sort_of(trace, *begin);
    auto end = begin + 1;
    while (end != rows.end() && sort_of(trace, *end) == sort) ++end;
    const Shown shown = shown_of(sort);
    if (static_cast<size_t>(end - begin) > shown.longest) {
      const auto first = begin + static_cast<std::ptrdiff_t>(shown.begin);
      const auto last = end - static_cast<std::ptrdiff_t>(shown.end);
      Row middle = join(trace, first, last);
      std::move(begin, first, std::back_inserter(folded));
      folded.push_back(std::move(middle));
      std::move(last, end, std::back_inserter(folded));
    } else {
      std::move(begin, end, std::back_inserter(folded));
    }
    begin = end;
  }
  return folded;
}

}  // namespace

std::vector<Row> fold(const Trace& trace, std::span<const Index> packets, bool all) {
  std::vector<Row> rows;
  rows.reserve(packets.size());
  for (const Index i : packets) {
    Row row;
    row.packets = {i};
    row.words = words_of(trace, trace.packets[i]);
    rows.push_back(std::move(row));
  }
  if (all) return rows;
  return fold_stretches(trace, fold_alike(trace, std::move(rows)));
}

}  // namespace verbena::explain
