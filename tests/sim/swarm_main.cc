// swarm: runs seeds of the simulator. See docs/testing.md.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/seeds.h"
#include "tests/sim/swarm.h"

namespace {

constexpr uint64_t kLastSeed = 1ULL << 48;

using namespace verbena::sim;  // NOLINT(google-build-using-namespace)

constexpr const char* kUsage =
    R"(usage: swarm --seeds FROM:TO [--every-fault] [--jobs N] [--verbose] [--no-shrink]
       swarm --seed N [--every-fault] [--without FAULT,...] [--only OPERATION,...]
             [--max-bytes N] [--trace]

Runs the simulator: each seed makes a small world of devices, links and faults, with random work
that a model checks. The last line is "N seeds, M failures"; the exit status is 1 if any failed.

  --seeds FROM:TO    these seeds, both included
  --seed N           one seed, whose world is described
  --every-fault      each link has every fault, where a seed else draws which
  --jobs N           in N processes
  --verbose          a line for each seed
  --no-shrink        failing seeds are reported as they are
  --without FAULT,.. switches off what the world has of these (a wrong name gives the list)
  --only N,...       leaves out all operations but these
  --max-bytes N      cuts longer messages
  --trace            prints each packet
)";

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "swarm: %s\n%s", why.c_str(), kUsage);
  std::exit(2);
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse("\"" + std::string(text) + "\" is not a number");
  }
  return value;
}

template <typename Visitor>
void for_each_item(std::string_view list, Visitor&& visit) {
  while (true) {
    const size_t comma = list.find(',');
    visit(list.substr(0, comma));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

uint32_t features(std::string_view list) {
  uint32_t bits = 0;
  for_each_item(list, [&](std::string_view name) {
    const auto feature = feature_of(name);
    if (!feature) {
      std::string known;
      for (uint32_t i = 0; i < static_cast<uint32_t>(Feature::kCount); ++i) {
        known.append(" ").append(feature_name(static_cast<Feature>(i)));
      }
      refuse("no fault \"" + std::string(name) + "\"; there are" + known);
    }
    bits |= 1U << static_cast<uint32_t>(*feature);
  });
  return bits;
}

std::vector<uint32_t> operations(std::string_view list) {
  std::vector<uint32_t> numbers;
  for_each_item(
      list, [&](std::string_view item) { numbers.push_back(static_cast<uint32_t>(number(item))); });
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Says something about the world of one seed.
bool is_for_one(std::string_view option) {
  return option == "--without" || option == "--only" || option == "--max-bytes" ||
         option == "--trace";
}

int replay(uint64_t seed, const SwarmOptions& options) {
  if (make_plan(seed, options.reduction, options.every_fault).operations() == 0) {
    refuse("--only leaves nothing: seed " + std::to_string(seed) + " has operations 0 to " +
           std::to_string(make_plan(seed, {}, options.every_fault).operations() - 1));
  }
  const SwarmResult result = run_swarm(seed, options);
  std::printf("seed %llu: %u operations, %llu packets, %llu sent again; %s\n",
              static_cast<unsigned long long>(seed), result.operations,
              static_cast<unsigned long long>(result.packets),
              static_cast<unsigned long long>(result.resent), result.world.c_str());
  if (!result.failure.empty()) std::printf("%s\n", result.failure.c_str());
  std::printf("1 seeds, %d failures\n", result.failure.empty() ? 0 : 1);
  return result.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  SeedRange range;
  SwarmOptions options;
  bool one = false;
  bool many = false;
  std::string for_one;  // an option that --seeds would not heed
  range.command = argv[0];
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help" || option == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    const auto value = [&]() -> std::string_view {
      if (i + 1 == argc) refuse(std::string(option) + " needs a value");
      return argv[++i];
    };
    if (is_for_one(option)) for_one = option;
    if (option == "--seeds") {
      const std::string_view text = value();
      const size_t colon = text.find(':');
      if (colon == std::string_view::npos) refuse("--seeds needs FROM:TO");
      range.from = number(text.substr(0, colon));
      range.to = number(text.substr(colon + 1));
      many = true;
    } else if (option == "--seed") {
      range.from = number(value());
      one = true;
    } else if (option == "--jobs") {
      range.jobs = static_cast<uint32_t>(number(value()));
    } else if (option == "--every-fault") {
      range.every_fault = options.every_fault = true;
    } else if (option == "--verbose") {
      range.verbose = true;
    } else if (option == "--no-shrink") {
      range.shrink = false;
    } else if (option == "--without") {
      options.reduction.without = features(value());
    } else if (option == "--only") {
      options.reduction.ops = operations(value());
    } else if (option == "--max-bytes") {
      options.reduction.max_bytes = static_cast<uint32_t>(number(value()));
    } else if (option == "--trace") {
      options.trace = true;
    } else {
      refuse("unknown option " + std::string(option));
    }
  }
  if (one == many) refuse("either --seeds FROM:TO or --seed N");
  if (many && !for_one.empty()) refuse(for_one + " goes with --seed N");
  if (one) return replay(range.from, options);
  if (range.to < range.from) refuse("--seeds FROM:TO goes upwards");
  if (range.to > kLastSeed) refuse("seeds end at " + std::to_string(kLastSeed));
  const uint64_t failures = run_seeds(range);
  std::printf("%llu seeds, %llu failures\n",
              static_cast<unsigned long long>(range.to - range.from + 1),
              static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
