#include "tests/sim/shrink.h"

#include <algorithm>
#include <vector>

namespace verbena::sim {
namespace {

constexpr uint32_t kMostRuns = 1'000;

// What went wrong, without the numbers of queue pairs, operations and bytes.
std::string kind_of(const std::string& failure) {
  std::string kind = failure;
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

class Shrinker {
 public:
  Shrinker(uint64_t seed, const SwarmOptions& options) : seed_(seed), options_(options) {
    options_.trace = false;
    best_.reduction = options.reduction;
    best_.result = run_swarm(seed, options_);
    kind_ = kind_of(best_.result.failure);
  }

  Shrunk run() {
    drop_features();
    cut_messages();
    drop_operations();
    // What needed many operations may be gone with them.
    drop_features();
    cut_messages();
    return best_;
  }

 private:
  bool still_fails(const Reduction& reduction) {
    if (best_.runs == kMostRuns) return false;
    ++best_.runs;
    options_.reduction = reduction;
    SwarmResult result = run_swarm(seed_, options_);
    if (result.failure.empty() || kind_of(result.failure) != kind_) return false;
    best_.reduction = reduction;
    best_.result = std::move(result);
    return true;
  }

  void drop_features() {
    for (uint32_t i = 0; i < static_cast<uint32_t>(Feature::kCount); ++i) {
      if (!best_.reduction.has(static_cast<Feature>(i))) continue;
      Reduction less = best_.reduction;
      less.without |= 1U << i;
      (void)still_fails(less);
    }
  }

  void cut_messages() {
    for (uint32_t bytes : {0U, 1U, 16U, 64U, 256U, 1024U, 4096U}) {
      if (bytes >= best_.reduction.max_bytes) return;
      Reduction less = best_.reduction;
      less.max_bytes = bytes;
      if (still_fails(less)) return;
    }
  }

  std::vector<uint32_t> operations() const {
    std::vector<uint32_t> numbers;
    for (const EndPlan& end : make_plan(seed_, best_.reduction, options_.every_fault).ends) {
      for (const Operation& op : end.ops) numbers.push_back(op.number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  // Leaves out half of them, then quarters, and so on down to one by one.
  void drop_operations() {
    std::vector<uint32_t> kept = operations();
    for (size_t piece = (kept.size() + 1) / 2; piece != 0 && !kept.empty();) {
      bool any = false;
      for (size_t from = 0; from < kept.size();) {
        std::vector<uint32_t> fewer = kept;
        const size_t to = std::min(from + piece, fewer.size());
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(from),
                    fewer.begin() + static_cast<std::ptrdiff_t>(to));
        Reduction less = best_.reduction;
        less.ops = fewer;
        if (!fewer.empty() && still_fails(less)) {
          kept = std::move(fewer);
          any = true;
        } else {
          from = to;
        }
      }
      if (piece == 1 && !any) return;
      if (piece > 1) piece = (piece + 1) / 2;
    }
  }

  uint64_t seed_;
  SwarmOptions options_;
  std::string kind_;
  Shrunk best_;
};

}  // namespace

Shrunk shrink(uint64_t seed, const SwarmOptions& options) {
  return Shrinker(seed, options).run();
}

}  // namespace verbena::sim
