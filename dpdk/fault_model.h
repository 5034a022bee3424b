// FaultModel: what a lossy wire does to each frame. Pure: no clock, no frame bytes.
//
// The same settings and seed give the same verdicts for the same sequence of frame sizes: every
// frame draws the same number of random values, whatever is decided.
#pragma once

#include <cstdint>
#include <optional>

namespace verbena {

struct FaultSettings {
  // Probabilities per frame, 0 to 1.
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  uint64_t seed = 1;

  bool any() const { return drop > 0 || duplicate > 0 || reorder > 0 || corrupt > 0; }
};

struct FaultVerdict {
  bool drop = false;
  bool duplicate = false;
  uint32_t overtaken_by = 0;            // frames that pass this one; 0 = none
  std::optional<uint32_t> corrupt_bit;  // index of the bit to flip, below 8 * frame bytes
};

struct FaultCounters {
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
};

class FaultModel {
 public:
  static constexpr uint32_t kMaxOvertake = 4;

  // `stream` tells the directions of one wire apart.
  FaultModel(const FaultSettings& settings, uint64_t stream);

  bool active() const { return active_; }
  FaultVerdict next(uint32_t frame_bytes);

 private:
  uint64_t random();

  bool active_;
  uint64_t drop_;  // a fault happens when 32 random bits are below its threshold
  uint64_t duplicate_;
  uint64_t reorder_;
  uint64_t corrupt_;
  uint64_t state_;
};

}  // namespace verbena
