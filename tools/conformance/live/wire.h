// Wire: raw Ethernet frames on one of this machine's interfaces, to and from one host (libpcap).
//
// The kernel's own network stack goes on working beside it: it answers ARP, and the port of RoCEv2
// is held by a socket that reads nothing, so that it sends no ICMP errors. Needs CAP_NET_RAW.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/base/time.h"
#include "stack/types.h"
#include "tools/unique_fd.h"

struct pcap;

namespace verbena::conformance::live {

struct Host {
  MacAddr mac;  // of the next hop, when the host is behind a router
  Gid gid;
};

class Wire {
 public:
  // `interface` may be empty: the one on the way to `target`. Throws tools::CommandError.
  Wire(const std::string& target, const std::string& interface);

  [[nodiscard]] const Host& own() const { return own_; }
  [[nodiscard]] const Host& target() const { return target_; }
  [[nodiscard]] const std::string& interface() const { return interface_; }

  void send(std::span<const uint8_t> frame);
  // The next RoCEv2 frame from the target, or nothing within that time.
  std::optional<std::vector<uint8_t>> receive(DurationNs within);
  // Forgets what has come.
  void drain();

 private:
  struct Close {
    void operator()(pcap* handle) const;
  };

  void find_own_address();
  void open();
  void learn_mac();
  std::optional<std::vector<uint8_t>> next(DurationNs within);

  std::string target_name_;
  std::string interface_;
  Host own_;
  Host target_;
  std::unique_ptr<pcap, Close> pcap_;
  tools::UniqueFd port_holder_;
};

}  // namespace verbena::conformance::live
