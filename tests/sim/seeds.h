// Runs a range of seeds, in several processes if wanted, and reports those that fail: what went
// wrong, what the run shrinks to, and the commands that replay both.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::sim {

struct SeedRange {
  std::string command;  // how this program is called, for the replay
  uint64_t from = 1;
  uint64_t to = 1;
  uint32_t jobs = 1;
  bool every_fault = false;
  bool verbose = false;  // a line for each seed
  bool shrink = true;
};

// Returns the number of seeds that failed. Prints in the order of the seeds, whatever `jobs` is. A
// seed that ends its process counts as failed, and the others go on.
uint64_t run_seeds(const SeedRange& range);

}  // namespace verbena::sim
