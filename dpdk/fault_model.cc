#include "dpdk/fault_model.h"

#include <algorithm>
#include <utility>

namespace verbena {
namespace {

// Where the BTH is: no tag, no IP options, as our devices send.
constexpr size_t kIpAt = 14;
constexpr size_t kUdpBytes = 8;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;

constexpr uint64_t kWeyl = 0x9E3779B97F4A7C15U;

// A Weyl sequence through a 64-bit finaliser: small, fast, and good enough to pick frames with.
uint64_t next_random(uint64_t& state) {
  state += kWeyl;
  uint64_t x = state;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 32);
}

// 32 random bits against a share of their range.
bool happens(uint64_t bits, double share) {
  return (bits & 0xFFFFFFFF) < static_cast<uint64_t>(share * 4294967296.0);
}

// The opcode, or nothing for what is too short to have one.
std::optional<uint8_t> opcode_of(std::span<const uint8_t> frame) {
  if (frame.size() <= kIpAt) return std::nullopt;
  const size_t ip_bytes = frame[kIpAt] >> 4 == 4 ? kIpv4Bytes : kIpv6Bytes;
  const size_t at = kIpAt + ip_bytes + kUdpBytes;
  if (frame.size() <= at) return std::nullopt;
  return frame[at];
}

bool chooses(const FaultSelector& selector, uint32_t from, std::optional<uint8_t> opcode) {
  if (selector.from != FaultSelector::kBoth && selector.from != from) return false;
  return selector.any_opcode() || (opcode && selector.opcodes.test(*opcode));
}

bool is_one_of(const std::vector<uint32_t>& nth, uint64_t number) {
  return nth.empty() || std::find(nth.begin(), nth.end(), number) != nth.end();
}

DurationNs delay_of(FaultModel::Entry& entry, uint32_t from, Timestamp now, uint64_t random) {
  const FaultRule& rule = entry.rule;
  const DurationNs spread = 2 * rule.jitter_ns + 1;
  const Timestamp due = now + rule.delay_ns - rule.jitter_ns + random % spread;
  entry.last_due[from] = std::max(entry.last_due[from], due);
  return entry.last_due[from] - now;
}

void apply(FaultModel::Entry& entry, uint32_t from, uint32_t bytes, Timestamp now, bool may_hold,
           FaultVerdict& verdict) {
  const FaultRule& rule = entry.rule;
  FaultTally& tally = entry.tally;
  uint64_t& state = entry.random[from];
  const uint64_t a = next_random(state);
  const uint64_t b = next_random(state);
  const uint64_t c = next_random(state);
  const uint64_t d = next_random(state);
  if (verdict.drop) return;
  if (happens(a, rule.drop)) {
    verdict.drop = true;
    ++tally.dropped;
    return;
  }
  if (happens(a >> 32, rule.duplicate)) {
    verdict.duplicate = true;
    ++tally.duplicated;
  }
  if (may_hold && happens(b, rule.reorder)) {
    verdict.overtaken_by = 1 + static_cast<uint32_t>(c >> 32) % rule.reorder_by;
    ++tally.reordered;
  }
  if (bytes != 0 && happens(b >> 32, rule.corrupt)) {
    verdict.corrupt_bit = static_cast<uint32_t>((c & 0xFFFFFFFF) % (uint64_t{8} * bytes));
    ++tally.corrupted;
  }
  if (rule.delay_ns != 0) {
    verdict.delay_ns += delay_of(entry, from, now, d);
    ++tally.delayed;
  }
}

}  // namespace

bool FaultModel::set(const FaultRule& rule) {
  uint32_t slot = 0;
  while (slot < count_ && !entries_[slot].rule.selector.same(rule.selector)) ++slot;
  if (slot == kMaxFaultRules) return false;
  entries_[slot] = {};
  entries_[slot].rule = rule;
  for (uint64_t from = 0; from < 2; ++from) {
    // Rules with the same seed are as independent as the directions.
    entries_[slot].random[from] = rule.seed * kWeyl + 2 * slot + from;
  }
  count_ = std::max(count_, slot + 1);
  return true;
}

uint32_t FaultModel::clear(const FaultSelector& selector) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    if (selector.covers(entries_[i].rule.selector)) continue;
    if (kept != i) entries_[kept] = std::move(entries_[i]);
    ++kept;
  }
  const uint32_t cleared = count_ - kept;
  count_ = kept;
  return cleared;
}

FaultVerdict FaultModel::next(uint32_t from, std::span<const uint8_t> frame, Timestamp now,
                              bool may_hold) {
  const std::optional<uint8_t> opcode = opcode_of(frame);
  FaultVerdict verdict;
  for (uint32_t i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (!chooses(entry.rule.selector, from, opcode)) continue;
    ++entry.tally.matched;
    if (!is_one_of(entry.rule.selector.nth, entry.tally.matched)) continue;
    apply(entry, from, static_cast<uint32_t>(frame.size()), now, may_hold, verdict);
  }
  if (verdict.drop) return {.drop = true};
  return verdict;
}

}  // namespace verbena
