#include "dpdk/admin.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "dpdk/client.h"
#include "dpdk/log.h"

namespace verbena {
namespace {

using nlohmann::json;

constexpr std::string_view kUsage =
    "status, stat, fault wire RULE, fault show, fault clear, capture start FILE, capture stop or "
    "shutdown";

json error(std::string text) {
  return {{"error", std::move(text)}};
}

json error(Refusal refusal) {
  return {{"error", std::move(refusal.what)}, {"try", std::move(refusal.instead)}};
}

std::string command_name(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

DeviceNames device_names(const Daemon& daemon) {
  return {daemon.devices[0].identity.name, daemon.devices[1].identity.name};
}

uint64_t wall_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

json rule_json(const FaultModel::Entry& entry, const DeviceNames& names) {
  const FaultRule& rule = entry.rule;
  const FaultTally& tally = entry.tally;
  const uint32_t from = rule.selector.from;
  return {{"rule", fault_words(rule, names)},
          {"from", from == FaultSelector::kBoth ? json(nullptr) : json(names[from])},
          {"opcode", rule.selector.any_opcode() ? json(nullptr) : json(rule.selector.opcode)},
          {"nth", rule.selector.nth},
          {"drop", rule.drop},
          {"duplicate", rule.duplicate},
          {"reorder", rule.reorder},
          {"reorder_by", rule.reorder_by},
          {"corrupt", rule.corrupt},
          {"delay_ns", rule.delay_ns},
          {"jitter_ns", rule.jitter_ns},
          {"seed", rule.seed},
          {"matched", tally.matched},
          {"dropped", tally.dropped},
          {"duplicated", tally.duplicated},
          {"reordered", tally.reordered},
          {"corrupted", tally.corrupted},
          {"delayed", tally.delayed}};
}

json totals_json(const Capture& capture, const Capture::Totals& totals) {
  json answer = {
      {"file", capture.path()}, {"packets", totals.written}, {"dropped", totals.dropped}};
  if (totals.error != 0) {
    answer["write_error"] = fmt::format("the file is incomplete: {}", std::strerror(totals.error));
  }
  return answer;
}

}  // namespace

void Admin::finish() {
  if (capture_ != nullptr) capture_stop();
}

std::string Admin::answer(std::string_view words, const std::vector<const Client*>& clients) {
  try {
    // Text of a client's may be no UTF-8.
    return run(words, clients).dump(-1, ' ', false, json::error_handler_t::replace);
  } catch (const std::system_error&) {
    return R"({"error": "verbenad can start no thread: see ulimit -u, and its cgroup's pids.max"})";
  } catch (const std::bad_alloc&) {
    return R"({"error": "verbenad has no memory left: see ulimit -v"})";
  }
}

json Admin::run(std::string_view words, const std::vector<const Client*>& clients) {
  constexpr std::string_view kCaptureStart = "capture start ";
  constexpr std::string_view kFaultWire = "fault wire ";
  constexpr std::string_view kFaultClear = "fault clear ";
  // They would forge lines of the log.
  if (std::any_of(words.begin(), words.end(), [](char c) { return c >= 0 && c < ' '; })) {
    return error(fmt::format("a control character is no part of a command: write {}", kUsage));
  }
  if (words == "status") return status(clients);
  if (words == "stat") return stat();
  if (words == "fault show") return fault_show();
  if (words == "fault clear" || words.starts_with(kFaultClear)) {
    return fault_clear(words.substr(std::min(words.size(), kFaultClear.size())));
  }
  if (words.starts_with(kFaultWire)) return fault_wire(words.substr(kFaultWire.size()));
  if (words == "capture stop") return capture_stop();
  if (words.starts_with(kCaptureStart)) {
    return capture_start(std::string(words.substr(kCaptureStart.size())));
  }
  if (words == "shutdown") {
    shutdown_wanted_ = true;
    return {{"shutdown", true}};
  }
  return error(fmt::format("'{}' is not a command: write {}", words.substr(0, 80), kUsage));
}

json Admin::status(const std::vector<const Client*>& clients) {
  std::vector<ClientUsage> usage(clients.size());
  std::array<uint32_t, 2> queued{};
  daemon_.worker.commands().run([&] {
    for (size_t i = 0; i < clients.size(); ++i) {
      usage[i] = daemon_.devices[clients[i]->device_index()].device->usage(clients[i]->id());
    }
    for (size_t i = 0; i < queued.size(); ++i) queued[i] = daemon_.devices[i].port->queued();
  });
  json devices = json::array();
  for (size_t d = 0; d < daemon_.devices.size(); ++d) {
    const auto& [identity, device, port] = daemon_.devices[d];
    json client_list = json::array();
    for (size_t i = 0; i < clients.size(); ++i) {
      if (clients[i]->device_index() != d) continue;
      const PeerIdentity& peer = clients[i]->peer();
      client_list.push_back({{"pid", peer.pid},
                             {"comm", command_name(peer.pid)},
                             {"uid", peer.uid},
                             {"pds", usage[i].pds},
                             {"mrs", usage[i].mrs},
                             {"cqs", usage[i].cqs},
                             {"qps", usage[i].qps},
                             {"srqs", usage[i].srqs},
                             {"ahs", usage[i].ahs}});
    }
    devices.push_back({{"name", identity.name},
                       {"ip", identity.ip_text()},
                       {"gid", gid_text(identity.gid())},
                       {"mac", identity.mac_text()},
                       {"node_guid", identity.guid_text()},
                       {"vendor_id", identity.vendor_id},
                       {"vendor_part_id", identity.part_id},
                       {"mtu", mtu_bytes(device->config().active_mtu)},
                       {"state", "ACTIVE"},
                       {"wire_frames_waiting", queued[d]},
                       {"clients", std::move(client_list)}});
  }
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - daemon_.started;
  return {{"daemon",
           {{"pid", getpid()},
            {"version", VERBENA_VERSION},
            {"uptime_s", uptime.count()},
            {"dir", daemon_.options.dir}}},
          {"devices", std::move(devices)},
          {"wire", {{"queue_frames", Wire::kQueueFrames}, {"faults", fault_show()["rules"]}}},
          {"capture", capture_state()}};
}

json Admin::stat() {
  std::array<DeviceStats, 2> stats;
  std::array<PortCounters, 2> ports;
  daemon_.worker.commands().run([&] {
    for (size_t i = 0; i < stats.size(); ++i) {
      stats[i] = daemon_.devices[i].device->stats();
      ports[i] = daemon_.devices[i].port->counters();
    }
  });
  json devices = json::array();
  for (size_t i = 0; i < stats.size(); ++i) {
    json counters = json::object();
    const auto put = [&](std::string_view name, uint64_t value) {
      counters[std::string(name)] = value;
    };
    stats[i].for_each(put);
    for (size_t r = 0; r < stats[i].dropped.size(); ++r) {
      put(fmt::format("drop_{}", drop_reason_name(static_cast<DropReason>(r))),
          stats[i].dropped[r]);
    }
    ports[i].for_each(put);
    devices.push_back(
        {{"name", daemon_.devices[i].identity.name}, {"counters", std::move(counters)}});
  }
  return {{"devices", std::move(devices)}};
}

json Admin::fault_show() {
  std::vector<FaultModel::Entry> entries;
  entries.reserve(kMaxFaultRules);
  daemon_.worker.commands().run([&] {
    const auto rules = daemon_.wire.faults().rules();
    entries.assign(rules.begin(), rules.end());
  });
  json rules = json::array();
  for (const FaultModel::Entry& entry : entries) {
    rules.push_back(rule_json(entry, device_names(daemon_)));
  }
  return {{"rules", std::move(rules)}};
}

json Admin::fault_wire(std::string_view words) {
  const DeviceNames names = device_names(daemon_);
  FaultRule rule;
  if (Refusal refusal = parse_fault_rule(words, names, rule)) return error(std::move(refusal));
  bool fits = false;
  daemon_.worker.commands().run([&] { fits = daemon_.wire.set_fault(rule); });
  if (!fits) {
    return error(Refusal{fmt::format("the wire has {} rules already", kMaxFaultRules),
                         "verbena fault clear SELECTOR, to remove some first"});
  }
  log::info("fault of the wire: {}", fault_words(rule, names));
  return fault_show();
}

json Admin::fault_clear(std::string_view words) {
  const DeviceNames names = device_names(daemon_);
  FaultSelector selector;
  if (Refusal refusal = parse_fault_selector(words, names, selector)) {
    return error(std::move(refusal));
  }
  uint32_t cleared = 0;
  daemon_.worker.commands().run([&] { cleared = daemon_.wire.clear_faults(selector); });
  const std::string which = fault_words(selector, names);
  if (cleared == 0 && !which.empty()) {
    return error(Refusal{fmt::format("no rule has {}", which),
                         "verbena fault show, for those that there are"});
  }
  log::info("{} fault rules cleared", cleared);
  json answer = fault_show();
  answer["cleared"] = cleared;
  return answer;
}

void Admin::capture_to(Capture* capture) {
  daemon_.worker.commands().run([&] {
    for (auto& slot : daemon_.devices) slot.port->capture_to(capture);
  });
}

json Admin::capture_start(const std::string& path) {
  if (capture_ != nullptr) {
    return error(fmt::format("a capture into {} is on already; `verbena capture stop` ends it",
                             capture_->path()));
  }
  std::string wrong;
  UniqueFd file = open_capture_file(path, wrong);
  if (!file) return error(wrong);
  uint64_t offset = 0;
  daemon_.worker.commands().run([&] { offset = wall_ns() - daemon_.worker.now(); });
  capture_ = std::make_unique<Capture>(path, std::move(file), device_names(daemon_), offset);
  capture_to(capture_.get());
  log::info("capture into {} has begun", path);
  return {{"file", path}};
}

json Admin::capture_stop() {
  if (capture_ == nullptr) {
    return error("no capture is on: write capture start FILE");
  }
  capture_to(nullptr);
  const auto totals = capture_->finish();
  json answer = totals_json(*capture_, totals);
  log::info("capture into {} has ended: {} packets, {} dropped", capture_->path(), totals.written,
            totals.dropped);
  capture_.reset();
  return answer;
}

json Admin::capture_state() const {
  if (capture_ == nullptr) return {{"active", false}};
  json state = totals_json(*capture_, capture_->totals());
  state["active"] = true;
  return state;
}

}  // namespace verbena
