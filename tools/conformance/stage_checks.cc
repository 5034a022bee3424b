// What a stage looks at when the case is over.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tools/conformance/names.h"
#include "tools/conformance/script.h"
#include "tools/conformance/stage.h"

namespace verbena::conformance {
namespace {

// One expected or real entry of a completion queue.
struct Expected {
  std::string name;  // "[[send]] 2"
  const Completion* completion;
};

void compare(std::vector<std::string>& wrong, const std::string& name, const char* what,
             const std::string& expected, const std::string& real) {
  if (expected == real) return;
  wrong.push_back(
      fmt::format("completion of {}: {} is {}, expected {}", name, what, real, expected));
}

void compare(std::vector<std::string>& wrong, const Expected& expected, const sim::Wc& wc) {
  const Completion& want = *expected.completion;
  if (!want.allows(wc.status)) {
    compare(wrong, expected.name, "status", word_of_enum(kWcStatusNames, want.status),
            word_of_enum(kWcStatusNames, wc.status));
  }
  if (want.opcode) {
    compare(wrong, expected.name, "opcode", word_of_enum(kWcOpcodeNames, *want.opcode),
            word_of_enum(kWcOpcodeNames, wc.opcode));
  }
  if (want.byte_len) {
    compare(wrong, expected.name, "byte_len", std::to_string(*want.byte_len),
            std::to_string(wc.byte_len));
  }
  if (want.imm) {
    const bool has = (wc.flags & abi::kWcWithImm) != 0;
    compare(wrong, expected.name, "imm", fmt::format("0x{:08x}", *want.imm),
            has ? fmt::format("0x{:08x}", __builtin_bswap32(wc.imm_wire)) : "absent");
  }
  if (want.src_qpn) {
    compare(wrong, expected.name, "src_qpn", fmt::format("0x{:x}", *want.src_qpn),
            fmt::format("0x{:x}", wc.src_qpn));
  }
}

// All entries of one queue, in order. `posted` are positions of `sections`.
template <typename Sections>
void check_queue(std::vector<std::string>& wrong, sim::ClientCq& cq, const char* kind,
                 const Sections& sections, const std::vector<size_t>& posted) {
  std::vector<std::pair<size_t, Expected>> expected;
  for (const size_t index : posted) {
    if (!sections[index].completion) continue;
    expected.push_back(
        {index, {fmt::format("[[{}]] {}", kind, index + 1), &*sections[index].completion}});
  }
  size_t next = 0;
  for (const sim::Wc& wc : cq.poll_all()) {
    const size_t index = wc.wqe_index < posted.size() ? posted[wc.wqe_index] : SIZE_MAX;
    if (next < expected.size() && expected[next].first == index) {
      compare(wrong, expected[next++].second, wc);
      continue;
    }
    wrong.push_back(fmt::format("completion of [[{}]] {} ({}) came, and {}", kind, index + 1,
                                word_of_enum(kWcStatusNames, wc.status),
                                next < expected.size()
                                    ? "that of " + expected[next].second.name + " was expected next"
                                    : "none was expected any more"));
  }
  for (; next < expected.size(); ++next) {
    wrong.push_back(fmt::format("completion of {} did not come", expected[next].second.name));
  }
}

}  // namespace

// What the case says that is different from how the application left it.
void Stage::expect_contents() {
  for (size_t i = 0; i < case_.memories.size(); ++i) {
    for (const Piece& piece : case_.memories[i].expect) {
      put(expected_.data(), regions_[i].place, piece.offset, piece.data);
    }
  }
  for (size_t i = 0; i < case_.recvs.size(); ++i) {
    if (!case_.recvs[i].expect || recv_places_[i] >= places_.size()) continue;
    const Place& place = places_[recv_places_[i]];
    put(expected_.data(), recv_places_[i], place.skipped, *case_.recvs[i].expect);
  }
  for (size_t i = 0; i < case_.sends.size(); ++i) {
    if (!case_.sends[i].expect || send_places_[i] >= places_.size()) continue;
    put(expected_.data(), send_places_[i], 0, *case_.sends[i].expect);
  }
}

void Stage::check_memory(std::vector<std::string>& wrong) const {
  for (const Place& place : places_) {
    if (!place.compared || place.skipped >= place.bytes) continue;
    const auto real = const_cast<sim::Memory&>(station_.memory)
                          .range(station_.va(place.offset), place.bytes)
                          .subspan(place.skipped);
    const uint8_t* const expected = expected_.data() + place.offset + place.skipped;
    const auto [mine, theirs] = std::mismatch(real.begin(), real.end(), expected);
    if (mine == real.end()) continue;
    wrong.push_back(fmt::format("{}: byte {} is 0x{:02x}, expected 0x{:02x}", place.name,
                                mine - real.begin(), *mine, *theirs));
  }
}

void Stage::check_events(std::vector<std::string>& wrong) const {
  using Event = std::pair<AsyncEventType, size_t>;
  std::multiset<Event> missing;
  for (const ExpectedEvent& event : case_.events) missing.insert({event.event, event.qp});
  for (const DeviceEvent& event : events_) {
    if (event.kind != DeviceEvent::Kind::kQpAsync) continue;
    const auto queues = std::find_if(queues_.begin(), queues_.end(),
                                     [&](const Queues& q) { return q.qp->qpn() == event.object; });
    if (queues == queues_.end()) continue;
    const auto qp = static_cast<size_t>(queues - queues_.begin());
    const auto found = missing.find({event.async, qp});
    if (found != missing.end()) {
      missing.erase(found);
    } else if (event.async != AsyncEventType::kCommEst) {
      wrong.push_back(fmt::format("event {} of {} came, and was not expected",
                                  word_of_enum(kAsyncEventNames, event.async), qp_name(qp)));
    }
  }
  for (const auto& [event, qp] : missing) {
    wrong.push_back(fmt::format("event {} of {} did not come",
                                word_of_enum(kAsyncEventNames, event), qp_name(qp)));
  }
}

void Stage::check_counters(std::vector<std::string>& wrong) const {
  std::map<std::string, uint64_t> counters;
  const DeviceStats& stats = station_.device.stats();
  stats.for_each([&](const char* name, uint64_t value) { counters[name] = value; });
  for (size_t i = 0; i < stats.dropped.size(); ++i) {
    counters[fmt::format("drop_{}", drop_reason_name(static_cast<DropReason>(i)))] =
        stats.dropped[i];
  }
  for (const auto& [name, expected] : case_.counters) {
    if (counters[name] == expected) continue;
    wrong.push_back(fmt::format("counter {} is {}, expected {}", name, counters[name], expected));
  }
}

std::vector<std::string> Stage::check() {
  std::vector<std::string> wrong;
  for (const Queues& queues : queues_) {
    check_queue(wrong, *queues.send_cq, "send", case_.sends, queues.sends);
    check_queue(wrong, *queues.recv_cq, "recv", case_.recvs, queues.recvs);
  }
  expect_contents();
  check_memory(wrong);
  check_events(wrong);
  check_counters(wrong);
  for (size_t i = 0; i < queues_.size(); ++i) {
    const QpState state = station_.state(*queues_[i].qp);
    if (state == case_.qps[i].end_state) continue;
    wrong.push_back(fmt::format("{} is in {} at the end, expected {}", qp_name(i),
                                word_of_enum(kQpStateNames, state),
                                word_of_enum(kQpStateNames, case_.qps[i].end_state)));
  }
  return wrong;
}

}  // namespace verbena::conformance
