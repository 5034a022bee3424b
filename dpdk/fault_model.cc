#include "dpdk/fault_model.h"

namespace verbena {
namespace {

uint64_t threshold(double probability) {
  return static_cast<uint64_t>(probability * 4294967296.0);
}

}  // namespace

FaultModel::FaultModel(const FaultSettings& settings, uint64_t stream)
    : active_(settings.any()),
      drop_(threshold(settings.drop)),
      duplicate_(threshold(settings.duplicate)),
      reorder_(threshold(settings.reorder)),
      corrupt_(threshold(settings.corrupt)),
      state_(settings.seed * 0x9E3779B97F4A7C15U + stream) {}

// A Weyl sequence through a 64-bit finaliser: small, fast, and good enough to pick frames with.
uint64_t FaultModel::random() {
  state_ += 0x9E3779B97F4A7C15U;
  uint64_t x = state_;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 32);
}

FaultVerdict FaultModel::next(uint32_t frame_bytes) {
  const uint64_t a = random();
  const uint64_t b = random();
  const uint64_t c = random();
  FaultVerdict verdict;
  verdict.drop = (a & 0xFFFFFFFF) < drop_;
  if (verdict.drop || frame_bytes == 0) return verdict;
  verdict.duplicate = (a >> 32) < duplicate_;
  if ((b & 0xFFFFFFFF) < reorder_) {
    verdict.overtaken_by = 1 + static_cast<uint32_t>(c >> 32) % kMaxOvertake;
  }
  if ((b >> 32) < corrupt_) {
    verdict.corrupt_bit = static_cast<uint32_t>((c & 0xFFFFFFFF) % (uint64_t{8} * frame_bytes));
  }
  return verdict;
}

}  // namespace verbena
