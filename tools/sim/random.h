// Random numbers that are the same everywhere for a seed (splitmix64). A stream is a sequence of
// its own: what is drawn from one does not move the others.
#pragma once

#include <cstdint>

namespace verbena::sim {

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(seed) {
    state_ = next() ^ stream * 0xD1B54A32D192ED03;
  }

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // From [low, high].
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(next() % (uint64_t{high} - low + 1));
  }
  bool chance(uint32_t per_mille) { return next() % 1000 < per_mille; }
  bool chance_ppm(uint32_t per_million) {
    return per_million != 0 && next() % 1'000'000 < per_million;
  }

 private:
  uint64_t state_;
};

}  // namespace verbena::sim
