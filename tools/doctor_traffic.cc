#include "tools/doctor_traffic.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "tools/status_text.h"

namespace verbena::tools {

namespace {

struct Endpoint {
  std::string name;
  Counters counters;

  [[nodiscard]] uint64_t value(const std::string& counter) const {
    const auto found = counters.find(counter);
    return found == counters.end() ? 0 : found->second;
  }
};

struct Cause {
  std::string_view counter;
  std::string_view text;
  std::string_view help;
};

// Where a request or its answer can end. The first counter is the sender's own; the others are
// those of whoever received the packet.
constexpr std::string_view kWireDropped = "wire_dropped";
constexpr std::array<Cause, 10> kCauses = {{
    {kWireDropped, "dropped by the wire's faults", "verbena fault show"},
    {"drop_bad_icrc", "damaged on the way (wrong ICRC)",
     "verbena fault show, or look for what changes packets between the two ends"},
    {"drop_unknown_qp", "for a queue pair that does not exist, or no longer",
     "compare the QP numbers that the programs exchanged, and let the receiver live until the "
     "sender has its completions"},
    {"drop_qp_state", "for a queue pair that takes none in its state",
     "bring the receiver to RTR before the sender begins; look for an earlier error completion of "
     "the receiver"},
    {"drop_wrong_address", "from another address than the one the queue pair is connected to",
     "compare the GIDs that the programs exchanged, and their GID index"},
    {"drop_wrong_transport", "of another transport than the queue pair's",
     "create both queue pairs with the same type"},
    {"drop_bad_pkey", "of another partition (P_Key)", "use pkey_index 0 on both sides"},
    {"drop_bad_qkey", "with a Q_Key that is not the receiver's", "use the same qkey on both sides"},
    {"drop_no_receive", "without a receive request to take them",
     "post receives before the other side sends"},
    {"drop_memory_later", "for memory of a program that did not react",
     "look whether the receiving program is stopped"},
}};

// The most frequent cause on the way from `from`, which any of the others may have counted.
struct Culprit {
  const Cause* cause = nullptr;
  uint64_t packets = 0;
  std::string where;
};

Culprit culprit_of(const Endpoint& from, const std::vector<Endpoint>& all) {
  Culprit worst;
  for (const Cause& cause : kCauses) {
    for (const Endpoint& endpoint : all) {
      const uint64_t packets = endpoint.value(std::string(cause.counter));
      if (packets <= worst.packets) continue;
      if (cause.counter == kWireDropped && endpoint.name != from.name) continue;
      worst = {&cause, packets, endpoint.name};
    }
  }
  return worst;
}

Finding silence(const Endpoint& from, const std::vector<Endpoint>& all) {
  const uint64_t failed = from.value("retry_exceeded_err");
  Finding finding{Level::kWarn, from.name, {}, "verbena capture start FILE, and run it again"};
  if (from.value("rcvd_pkts") == 0) {
    finding.text =
        fmt::format("{} packets sent, nothing received from the peer", from.value("sent_pkts"));
  } else {
    finding.text = fmt::format("{} queue pair{} gave up: the peer did not answer", failed,
                               failed == 1 ? "" : "s");
  }
  const Culprit culprit = culprit_of(from, all);
  if (culprit.cause == nullptr) return finding;
  finding.text += fmt::format("; {} packets {}", culprit.packets, culprit.cause->text);
  if (culprit.cause->counter != kWireDropped) finding.text += fmt::format(" ({})", culprit.where);
  finding.help = culprit.cause->help;
  return finding;
}

}  // namespace

std::vector<Finding> traffic_findings(const nlohmann::json& stat) {
  std::vector<Endpoint> endpoints;
  for (const auto& device : list(stat, "devices")) {
    endpoints.push_back({field(device, "name"), counters_of(device)});
  }
  std::vector<Finding> findings;
  for (const Endpoint& endpoint : endpoints) {
    if (endpoint.value("retry_exceeded_err") > 0) findings.push_back(silence(endpoint, endpoints));
    if (const uint64_t tired = endpoint.value("rnr_nak_retry_err"); tired > 0) {
      findings.push_back({Level::kWarn, endpoint.name,
                          fmt::format("{} queue pair{} gave up: the peer had no receive posted",
                                      tired, tired == 1 ? "" : "s"),
                          "post receives earlier, or set rnr_retry to 7 (without end)"});
    }
  }
  if (findings.empty()) {
    findings.push_back(
        {Level::kOk, "traffic", "no queue pair gave up since the daemon's start", {}});
  }
  return findings;
}

}  // namespace verbena::tools
