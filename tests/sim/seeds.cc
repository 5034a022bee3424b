#include "tests/sim/seeds.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/sim/shrink.h"

namespace verbena::sim {
namespace {

constexpr uint64_t kMaxJobs = 256;

using Number = unsigned long long;

constexpr useconds_t kLookAgain = 100'000;

// What a job tells the parent, in memory that both have.
struct Progress {
  std::atomic<uint64_t> next;  // the seed in the making; past the last: done
  std::atomic<uint64_t> failures;
};

struct Job {
  uint64_t from, to;
  Progress* progress;
  FILE* output;
  pid_t child;
};

SwarmOptions options_of(const SeedRange& range) {
  SwarmOptions options;
  options.every_fault = range.every_fault;
  return options;
}

std::string replay_of(const SeedRange& range, uint64_t seed) {
  return "  replay: " + range.command + " --seed " + std::to_string(seed) +
         (range.every_fault ? " --every-fault" : "");
}

void report(FILE* out, const SeedRange& range, uint64_t seed, const SwarmResult& result) {
  const std::string replay = replay_of(range, seed);
  std::fprintf(out, "seed %llu: %s (%s)\n%s\n", Number{seed}, result.failure.c_str(),
               result.world.c_str(), replay.c_str());
  if (!range.shrink) return;
  const Shrunk less = shrink(seed, options_of(range));
  std::fprintf(out, "  shrunk to %u operations: %s (%s)\n%s%s\n", less.result.operations,
               less.result.failure.c_str(), less.result.world.c_str(), replay.c_str(),
               less.reduction.text().c_str());
}

void run_job(const SeedRange& range, Job& job) {
  const SwarmOptions options = options_of(range);
  for (uint64_t seed = job.progress->next; seed <= job.to; ++seed) {
    job.progress->next = seed;
    const SwarmResult result = run_swarm(seed, options);
    if (range.verbose) {
      std::fprintf(job.output, "seed %llu: %u operations, %llu packets, %llu sent again; %s\n",
                   Number{seed}, result.operations, Number{result.packets}, Number{result.resent},
                   result.world.c_str());
    }
    if (result.failure.empty()) continue;
    ++job.progress->failures;
    report(job.output, range, seed, result);
    std::fflush(job.output);
  }
  job.progress->next = job.to + 1;
}

void start(const SeedRange& range, Job& job) {
  std::fflush(nullptr);
  job.child = fork();
  if (job.child < 0) {
    std::perror("swarm: cannot start a process");
    std::exit(2);
  }
  if (job.child != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves nothing behind
  run_job(range, job);
  std::fflush(job.output);
  std::_Exit(0);
}

// False when the job is over. One that was ended by a seed goes on behind it.
bool look_after(const SeedRange& range, Job& job) {
  int status = 0;
  if (waitpid(job.child, &status, WNOHANG) == 0) return true;
  const uint64_t seed = job.progress->next;
  if (seed > job.to) return false;
  std::fseek(job.output, 0, SEEK_END);
  std::fprintf(job.output, "seed %llu: the process ended with %s %d\n%s\n", Number{seed},
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
               replay_of(range, seed).c_str());
  ++job.progress->failures;
  job.progress->next = seed + 1;
  if (seed == job.to) return false;
  start(range, job);
  return true;
}

void show_progress(const SeedRange& range, const std::vector<Job>& jobs) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  uint64_t done = 0;
  uint64_t failures = 0;
  for (const Job& job : jobs) {
    done += job.progress->next - job.from;
    failures += job.progress->failures;
  }
  std::fprintf(stderr, "\r%llu of %llu seeds, %llu failures ", Number{done},
               Number{range.to - range.from + 1}, Number{failures});
  std::fflush(stderr);
}

void print(FILE* output) {
  std::rewind(output);
  char buffer[4096];
  while (const size_t bytes = std::fread(buffer, 1, sizeof buffer, output)) {
    (void)std::fwrite(buffer, 1, bytes, stdout);
  }
}

Progress* shared_progress(uint64_t count) {
  void* memory = mmap(nullptr, count * sizeof(Progress), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("swarm: no memory");
    std::exit(2);
  }
  auto* progress = static_cast<Progress*>(memory);
  std::uninitialized_value_construct_n(progress, count);
  return progress;
}

}  // namespace

uint64_t run_seeds(const SeedRange& range) {
  const uint64_t seeds = range.to - range.from + 1;
  const uint64_t count = std::clamp<uint64_t>(range.jobs, 1, std::min(seeds, kMaxJobs));
  Progress* progress = shared_progress(count);
  std::vector<Job> jobs;
  for (uint64_t i = 0; i < count; ++i) {
    Job job{range.from + seeds * i / count, range.from + seeds * (i + 1) / count - 1, progress + i,
            std::tmpfile(), 0};
    if (job.output == nullptr) {
      std::perror("swarm: no temporary file");
      std::exit(2);
    }
    job.progress->next = job.from;
    start(range, job);
    jobs.push_back(job);
  }
  std::vector<Job*> running;
  for (Job& job : jobs) running.push_back(&job);
  while (!running.empty()) {
    std::erase_if(running, [&](Job* job) { return !look_after(range, *job); });
    show_progress(range, jobs);
    if (!running.empty()) usleep(kLookAgain);
  }
  if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K");
  uint64_t failures = 0;
  for (const Job& job : jobs) {
    print(job.output);
    std::fclose(job.output);
    failures += job.progress->failures;
  }
  munmap(progress, count * sizeof(Progress));
  return failures;
}

}  // namespace verbena::sim
