// verbena stat: the counters of the devices.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <thread>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/error.h"
#include "tools/status_text.h"
#include "tools/table.h"

namespace verbena::tools {

namespace {

struct Sample {
  std::vector<std::string> devices;
  std::vector<Counters> counters;  // one per device
};

Sample sample_of(const nlohmann::json& answer, const std::string& device) {
  Sample sample;
  std::vector<std::string> names;
  for (const auto& entry : list(answer, "devices")) {
    names.push_back(field(entry, "name"));
    if (!device.empty() && names.back() != device) continue;
    sample.devices.push_back(names.back());
    sample.counters.push_back(counters_of(entry));
  }
  if (!device.empty() && sample.devices.empty()) {
    throw CommandError(fmt::format("there is no device '{}'", device),
                       fmt::format("use one of: {}", fmt::join(names, ", ")));
  }
  return sample;
}

uint64_t value_of(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

std::set<std::string> names_in(const Sample& sample, bool all) {
  std::set<std::string> names;
  for (const Counters& counters : sample.counters) {
    for (const auto& [name, value] : counters) {
      if (all || value != 0) names.insert(name);
    }
  }
  return names;
}

// With a `before`, each device gets a second column: the change per second.
std::string text_of(const Sample& now, const Sample* before, double seconds, bool all) {
  std::vector<std::string> header = {"COUNTER"};
  for (const std::string& device : now.devices) {
    header.push_back(device);
    if (before != nullptr) header.emplace_back("PER SECOND");
  }
  Table table(header);
  for (const std::string& name : names_in(now, all)) {
    std::vector<std::string> row = {name};
    for (size_t i = 0; i < now.devices.size(); ++i) {
      const uint64_t value = value_of(now.counters[i], name);
      row.push_back(std::to_string(value));
      if (before == nullptr) continue;
      const uint64_t old = i < before->counters.size() ? value_of(before->counters[i], name) : 0;
      const double change = value >= old ? static_cast<double>(value - old) : 0.0;
      row.push_back(fmt::format("{:.0f}", change / seconds));
    }
    table.add(row);
  }
  return table.empty() ? "all counters are 0\n" : table.text();
}

void watch(const AdminClient& daemon, const StatOptions& options) {
  Sample before = sample_of(daemon.ask("stat"), options.device);
  auto before_time = std::chrono::steady_clock::now();
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch_s));
    Sample now = sample_of(daemon.ask("stat"), options.device);
    const auto time = std::chrono::steady_clock::now();
    const std::chrono::duration<double> elapsed = time - before_time;
    fmt::print("{}{}\n", terminal ? "\033[H\033[2J" : "",
               text_of(now, &before, elapsed.count(), options.all));
    if (std::fflush(stdout) != 0) return;  // the reader is gone
    before = std::move(now);
    before_time = time;
  }
}

}  // namespace

void stat(const Context& context, const StatOptions& options) {
  const AdminClient daemon = AdminClient::connect_or_fail(context.run_dir());
  if (options.watch_s > 0) {
    watch(daemon, options);
    return;
  }
  nlohmann::json answer = daemon.ask("stat");
  const Sample sample = sample_of(answer, options.device);
  if (!context.json) {
    fmt::print("{}", text_of(sample, nullptr, 1, options.all));
    return;
  }
  if (!options.device.empty()) {
    nlohmann::json chosen = nlohmann::json::array();
    for (const auto& entry : list(answer, "devices")) {
      if (field(entry, "name") == options.device) chosen.push_back(entry);
    }
    answer["devices"] = chosen;
  }
  fmt::print("{}\n", answer.dump(2));
}

}  // namespace verbena::tools
