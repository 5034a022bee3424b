#include "tools/conformance/live/wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// pcap.h wants the BSD names of integers.
#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "stack/wire/ethernet.h"
#include "tools/conformance/frame_edit.h"
#include "tools/conformance/names.h"
#include "tools/error.h"

namespace verbena::conformance::live {
namespace {

using tools::CommandError;
using tools::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr int kSnapBytes = 65536;
constexpr int kKernelBufferBytes = 8 << 20;
constexpr DurationNs kLearnTime = 3'000'000'000;
// Nothing listens there; a connection attempt makes the target show its MAC address.
constexpr uint16_t kDiscardPort = 9;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address address_of(const Gid& gid, uint16_t port) {
  Address address;
  if (gid.is_ipv4()) {
    auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&address.bytes);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    ipv4->sin_addr.s_addr = htonl(gid.ipv4());
    address.size = sizeof *ipv4;
  } else {
    auto* const ipv6 = reinterpret_cast<sockaddr_in6*>(&address.bytes);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port);
    std::copy(gid.bytes.begin(), gid.bytes.end(), ipv6->sin6_addr.s6_addr);
    address.size = sizeof *ipv6;
  }
  return address;
}

std::optional<Gid> gid_of(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    return Gid::from_ipv4(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  Gid gid;
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(address);
  std::copy_n(ipv6->sin6_addr.s6_addr, gid.bytes.size(), gid.bytes.begin());
  return gid;
}

// The interface that has this address, or nothing.
std::string interface_with(const Gid& gid) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string name;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (gid_of(entry->ifa_addr) == gid) name = entry->ifa_name;
  }
  freeifaddrs(list);
  return name;
}

MacAddr mac_of(const std::string& interface) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd.value(), SIOCGIFHWADDR, &request) != 0) {
    throw CommandError(fmt::format("{}: {}", interface, std::strerror(errno)),
                       "an Ethernet interface, as `ip link` names it");
  }
  MacAddr mac;
  std::copy_n(request.ifr_hwaddr.sa_data, mac.bytes.size(), mac.bytes.begin());
  return mac;
}

// A frame that carries RoCEv2, however broken: those of the control connection do not.
bool is_roce(std::span<const uint8_t> frame) {
  return find_bth(frame).has_value();
}

}  // namespace

void Wire::Close::operator()(pcap* handle) const {
  pcap_close(handle);
}

Wire::Wire(const std::string& target, const std::string& interface)
    : target_name_(target), interface_(interface) {
  const auto gid = parse_ip(target);
  if (!gid) {
    throw CommandError(fmt::format("--target {}: no IP address", target),
                       "the address of the device to be tested, as --target 192.0.2.1");
  }
  target_.gid = *gid;
  find_own_address();
  own_.mac = mac_of(interface_);
  open();
  learn_mac();
  port_holder_.reset(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Address any = address_of(Gid{}, kRoceUdpPort);
  // Held by somebody else: as well.
  (void)bind(port_holder_.value(), any.get(), any.size);
}

// The kernel knows from which address it would send.
void Wire::find_own_address() {
  const Address address = address_of(target_.gid, kRoceUdpPort);
  const UniqueFd fd(socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address own;
  own.size = sizeof own.bytes;
  if (connect(fd.value(), address.get(), address.size) != 0 ||
      getsockname(fd.value(), reinterpret_cast<sockaddr*>(&own.bytes), &own.size) != 0) {
    throw CommandError(fmt::format("there is no way to {}: {}", target_name_, std::strerror(errno)),
                       "`ip route get " + target_name_ + "` must show an interface");
  }
  own_.gid = *gid_of(own.get());
  if (interface_.empty()) interface_ = interface_with(own_.gid);
  if (interface_.empty()) {
    throw CommandError(fmt::format("no interface has the address {}", ip_text(own_.gid)),
                       "name it: --interface eth0");
  }
}

void Wire::open() {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_.reset(pcap_create(interface_.c_str(), error));
  if (!pcap_) throw CommandError(fmt::format("{}: {}", interface_, error), "");
  pcap_set_snaplen(pcap_.get(), kSnapBytes);
  pcap_set_immediate_mode(pcap_.get(), 1);
  pcap_set_buffer_size(pcap_.get(), kKernelBufferBytes);
  const int status = pcap_activate(pcap_.get());
  if (status == PCAP_ERROR_PERM_DENIED) {
    throw CommandError(
        fmt::format("raw frames may not be sent on {}: this needs the capability CAP_NET_RAW",
                    interface_),
        "run it as root, or once: sudo setcap cap_net_raw+ep $(command -v verbena)");
  }
  if (status < 0 || pcap_datalink(pcap_.get()) != DLT_EN10MB) {
    throw CommandError(
        fmt::format("{}: {}", interface_,
                    status < 0 ? pcap_geterr(pcap_.get()) : "not an Ethernet interface"),
        "an Ethernet interface that is up, as `ip link` names it");
  }
  pcap_setdirection(pcap_.get(), PCAP_D_IN);
  pcap_setnonblock(pcap_.get(), 1, error);
  bpf_program filter{};
  const std::string text = fmt::format("src host {}", ip_text(target_.gid));
  if (pcap_compile(pcap_.get(), &filter, text.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0 ||
      pcap_setfilter(pcap_.get(), &filter) != 0) {
    throw CommandError(fmt::format("filter '{}': {}", text, pcap_geterr(pcap_.get())), "");
  }
  pcap_freecode(&filter);
}

void Wire::learn_mac() {
  const Address address = address_of(target_.gid, kDiscardPort);
  const UniqueFd fd(
      socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  (void)connect(fd.value(), address.get(), address.size);
  const auto frame = next(kLearnTime);
  if (!frame || frame->size() < wire::EthernetView<const uint8_t>::kBytes) {
    throw CommandError(fmt::format("{} does not show itself on {}", target_name_, interface_),
                       fmt::format("is it up, and behind that interface? `ping {}`", target_name_));
  }
  target_.mac = wire::EthernetView(frame->data()).source();
}

void Wire::send(std::span<const uint8_t> frame) {
  const int sent = pcap_inject(pcap_.get(), frame.data(), frame.size());
  if (sent == static_cast<int>(frame.size())) return;
  throw CommandError(
      fmt::format("a frame of {} bytes cannot be sent on {}: {}", frame.size(), interface_,
                  pcap_geterr(pcap_.get())),
      "the MTU of the interface must be larger than the path MTU of the case by 80 bytes or more");
}

std::optional<std::vector<uint8_t>> Wire::next(DurationNs within) {
  const auto end = Clock::now() + std::chrono::nanoseconds(within);
  for (;;) {
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    if (pcap_next_ex(pcap_.get(), &header, &bytes) == 1) {
      return std::vector<uint8_t>(bytes, bytes + header->caplen);
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd readable{pcap_get_selectable_fd(pcap_.get()), POLLIN, 0};
    (void)poll(&readable, 1, static_cast<int>(left));
  }
}

std::optional<std::vector<uint8_t>> Wire::receive(DurationNs within) {
  const auto end = Clock::now() + std::chrono::nanoseconds(within);
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now()).count();
    auto frame = next(left > 0 ? static_cast<DurationNs>(left) : 0);
    if (!frame) return std::nullopt;
    if (is_roce(*frame)) return frame;
  } while (Clock::now() < end);
  return std::nullopt;
}

void Wire::drain() {
  while (next(0)) {
  }
}

}  // namespace verbena::conformance::live
