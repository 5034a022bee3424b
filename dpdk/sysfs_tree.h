// SysfsTree: the virtual sysfs, DIR/sysfs/class/..., in which libibverbs, and programs that read
// /sys/class/infiniband themselves, find the devices.
//
// Written once at start; after that only counters change, in place. A counter never gets shorter,
// so a reader sees the old number or the new one. Control thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dpdk/identity.h"
#include "dpdk/port.h"
#include "stack/stats.h"

namespace verbena {

class SysfsTree {
 public:
  // Replaces what is at DIR/sysfs. Throws std::filesystem::filesystem_error or std::runtime_error.
  SysfsTree(const std::string& dir, std::span<const DeviceIdentity> devices);
  // Removes the tree.
  ~SysfsTree();
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  // Rewrites the counter files that have changed.
  void update(size_t device, const DeviceStats& stats, const PortCounters& port);

 private:
  void write_device(size_t index, const DeviceIdentity& device);
  void write_counters(size_t device, const DeviceStats& stats, const PortCounters& port);
  void write_counter(size_t device, std::string_view file, uint64_t value);

  const std::string root_;
  std::vector<std::string> port_dirs_;
  std::vector<std::unordered_map<std::string, uint64_t>> written_;
};

}  // namespace verbena
