#include "dpdk/sysfs_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "dpdk/unique_fd.h"
#include "stack/abi/version.h"

namespace verbena {
namespace {

namespace fs = std::filesystem;

// Counters that the kernel shows for every port and that nothing here ever raises.
constexpr std::string_view kQuietCounters[] = {"symbol_error",
                                               "link_error_recovery",
                                               "link_downed",
                                               "port_rcv_remote_physical_errors",
                                               "port_rcv_switch_relay_errors",
                                               "port_xmit_constraint_errors",
                                               "port_rcv_constraint_errors",
                                               "local_link_integrity_errors",
                                               "excessive_buffer_overrun_errors",
                                               "VL15_dropped",
                                               "multicast_xmit_packets",
                                               "multicast_rcv_packets"};

// Never waits: somebody may have put a FIFO in the file's place.
void write_file(const std::string& path, std::string_view text) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const UniqueFd fd(open(path.c_str(), kFlags, 0644));
  if (!fd || pwrite(fd.value(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
}

// The kernel's form of a CPU mask: groups of 32 bits, the highest first.
std::string cpu_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::array<uint32_t, CPU_SETSIZE / 32> groups{};
  size_t used = 1;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    groups[cpu / 32] |= uint32_t{1} << cpu % 32;
    used = cpu / 32 + 1;
  }
  std::string text = fmt::format("{:x}", groups[used - 1]);
  while (--used > 0) text += fmt::format(",{:08x}", groups[used - 1]);
  return text;
}

}  // namespace

SysfsTree::SysfsTree(const std::string& dir, std::span<const DeviceIdentity> devices)
    : root_(dir + "/sysfs") {
  fs::remove_all(root_);
  const std::string verbs = root_ + "/class/infiniband_verbs";
  fs::create_directories(verbs);
  write_file(verbs + "/abi_version", "6\n");
  for (size_t i = 0; i < devices.size(); ++i) write_device(i, devices[i]);
}

SysfsTree::~SysfsTree() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void SysfsTree::write_device(size_t index, const DeviceIdentity& device) {
  const std::string base = root_ + "/class/infiniband/" + device.name;
  const std::string port = base + "/ports/1";
  for (const char* leaf :
       {"/gids", "/gid_attrs/types", "/gid_attrs/ndevs", "/pkeys", "/counters", "/hw_counters"}) {
    fs::create_directories(port + leaf);
  }
  const std::string pci = base + "/device";
  fs::create_directories(pci);
  const auto put = [](const std::string& path, std::string_view text) {
    write_file(path, std::string(text) + "\n");
  };
  put(base + "/verbena", device.name);
  put(base + "/node_type", "1: CA");
  put(base + "/node_guid", device.guid_text());
  put(base + "/sys_image_guid", device.guid_text());
  put(base + "/node_desc", "Verbena " + device.name);
  put(base + "/fw_ver", VERBENA_VERSION);
  put(base + "/hw_rev", fmt::format("{:x}", kHwVersion));
  put(base + "/hca_type", "Verbena");
  put(base + "/board_id", "VRB0000000001");
  put(pci + "/vendor", fmt::format("0x{:04x}", device.vendor_id & 0xFFFF));
  put(pci + "/device", fmt::format("0x{:04x}", device.part_id & 0xFFFF));
  put(pci + "/numa_node", "-1");
  put(pci + "/local_cpus", cpu_mask());
  put(port + "/state", "4: ACTIVE");
  put(port + "/phys_state", "5: LinkUp");
  put(port + "/lid", "0x0");
  put(port + "/lid_mask_count", "0");
  put(port + "/sm_lid", "0x0");
  put(port + "/sm_sl", "0");
  put(port + "/cap_mask", "0x04010000");  // CM supported, IP-based GIDs
  put(port + "/rate", "100 Gb/sec (4X EDR)");
  put(port + "/link_layer", "Ethernet");
  put(port + "/pkeys/0", "0xffff");
  // libibverbs wants a valid type for empty entries too.
  for (uint32_t i = 0; i < kGidTableLen; ++i) {
    put(fmt::format("{}/gids/{}", port, i), gid_text(i == 0 ? device.gid() : Gid{}));
    put(fmt::format("{}/gid_attrs/types/{}", port, i), "RoCE v2");
  }
  for (const auto name : kQuietCounters) put(fmt::format("{}/counters/{}", port, name), "0");
  put(port + "/hw_counters/lifespan", "100");
  port_dirs_.push_back(port + "/");
  written_.emplace_back();
  write_counters(index, {}, {});

  const std::string uverbs = fmt::format("{}/class/infiniband_verbs/uverbs{}", root_, index);
  fs::create_directories(uverbs);
  put(uverbs + "/ibdev", device.name);
  put(uverbs + "/dev", "1:3");
  put(uverbs + "/abi_version", fmt::format("{}", abi::kAbiVersion));
}

void SysfsTree::update(size_t device, const DeviceStats& stats, const PortCounters& port) {
  try {
    write_counters(device, stats, port);
  } catch (const std::runtime_error&) {
    // A full disk, or a tree that the user has removed: the counters get old, nothing more.
  }
}

void SysfsTree::write_counters(size_t device, const DeviceStats& stats, const PortCounters& port) {
  const auto hw = [&](std::string_view name, uint64_t value) {
    write_counter(device, fmt::format("hw_counters/{}", name), value);
  };
  stats.for_each(hw);
  port.for_each(hw);
  uint64_t dropped = 0;
  for (size_t i = 0; i < stats.dropped.size(); ++i) {
    hw(fmt::format("drop_{}", drop_reason_name(static_cast<DropReason>(i))), stats.dropped[i]);
    dropped += stats.dropped[i];
  }
  const auto generic = [&](std::string_view name, uint64_t value) {
    write_counter(device, fmt::format("counters/{}", name), value);
  };
  constexpr uint64_t kDataUnit = 4;  // the *_data counters count 4-byte words
  generic("port_xmit_data", stats.sent_bytes / kDataUnit);
  generic("port_rcv_data", stats.rcvd_bytes / kDataUnit);
  generic("port_xmit_packets", stats.sent_pkts);
  generic("port_rcv_packets", stats.rcvd_pkts);
  generic("unicast_xmit_packets", stats.sent_pkts);
  generic("unicast_rcv_packets", stats.rcvd_pkts);
  generic("port_rcv_errors", dropped);
  generic("port_xmit_discards", 0);
  generic("port_xmit_wait", port.tx_full);
}

void SysfsTree::write_counter(size_t device, std::string_view file, uint64_t value) {
  const auto [entry, fresh] = written_[device].try_emplace(std::string(file), value);
  if (!fresh && entry->second == value) return;
  write_file(fmt::format("{}{}", port_dirs_[device], file), fmt::format("{}\n", value));
  entry->second = value;
}

}  // namespace verbena
