// swarm --seeds FROM:TO: runs the seeds, names the failing ones with the command that replays them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/swarm.h"

namespace {

int usage() {
  std::fprintf(stderr, "usage: swarm --seeds FROM:TO [--verbose|--trace]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned long long from = 0;
  unsigned long long to = 0;
  if (argc < 3 || std::strcmp(argv[1], "--seeds") != 0 ||
      std::sscanf(argv[2], "%llu:%llu", &from, &to) != 2 || to < from) {
    return usage();
  }
  const bool trace = argc > 3 && std::strcmp(argv[3], "--trace") == 0;
  const bool verbose = trace || (argc > 3 && std::strcmp(argv[3], "--verbose") == 0);
  unsigned long long failures = 0;
  for (unsigned long long seed = from; seed <= to; ++seed) {
    const auto result = verbena::sim::run_swarm(seed, trace);
    if (verbose) {
      std::printf("seed %llu: %llu operations, %llu packets, %llu sent again; %s\n", seed,
                  static_cast<unsigned long long>(result.operations),
                  static_cast<unsigned long long>(result.packets),
                  static_cast<unsigned long long>(result.resent), result.world.c_str());
    }
    if (result.failure.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n  replay: %s --seeds %llu:%llu --verbose\n", seed,
                result.failure.c_str(), argv[0], seed, seed);
  }
  std::printf("%llu seeds, %llu failures\n", to - from + 1, failures);
  return failures == 0 ? 0 : 1;
}
