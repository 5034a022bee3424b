// Audit: what must hold for a whole device when a run is over: every byte of memory, the counters
// as far as the run can tell them, and that nothing is left: no timer, no frame, no object.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "tests/sim/model.h"

namespace verbena::sim {

// What one station sent and was given, counted outside of it.
class Tally {
 public:
  void on_sent(const Frame& frame, const wire::ParsedPacket& packet, uint32_t mtu);
  void on_delivered(const Frame& frame, const World& world);
  // Compares with what the device counted. Empty, or what is wrong.
  std::string check(const DeviceStats& stats, const World& world) const;

 private:
  std::string check_traffic(const DeviceStats& stats) const;
  std::string check_drops(const DeviceStats& stats, const World& world) const;
  static std::string check_completions(const DeviceStats& stats, const World& world);
  static std::string check_messages(const DeviceStats& stats, const World& world);

  uint64_t sent_pkts_ = 0;
  uint64_t sent_bytes_ = 0;
  uint64_t rcvd_pkts_ = 0;
  uint64_t rcvd_bytes_ = 0;
  uint64_t noticed_ = 0;  // damaged so that a device must drop them before looking for a queue pair
  uint64_t strays_ = 0;   // of another station's queue pairs
  uint64_t acks_ = 0;
  uint64_t naks_ = 0;
  uint64_t again_ = 0;                        // request packets sent before
  std::unordered_map<Qpn, Psn> newest_sent_;  // by destination: one past the newest PSN of requests
};

// A missing packet is asked for once, until it comes (RC-RSP-1): a NAK more costs its requester a
// retry. Of one station's responders, which are known by the queue pairs of their peers.
class NakOnce {
 public:
  // Empty, or what is wrong.
  std::string on_sent(const wire::ParsedPacket& packet);
  void on_delivered(const Frame& frame, const World& world);

 private:
  std::unordered_map<Qpn, Psn> asked_;
};

// Every slice holds what it must, and nothing else was ever written. Destroys the contents.
std::string audit_memory(World& world, const std::vector<std::unique_ptr<End>>& ends);

// Moves on from a quiet world: destroys all, and looks for what is left.
std::string audit_leaks(World& world);

}  // namespace verbena::sim
