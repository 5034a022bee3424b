#include "tools/explain/text.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

namespace verbena::explain {

std::string gid_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

std::string mac_text(const MacAddr& mac) {
  return fmt::format("{:02x}", fmt::join(mac.bytes, ":"));
}

std::string psn_text(Psn psn) {
  return fmt::format("0x{:06x}", psn.value());
}

std::string qpn_text(std::optional<Qpn> qpn) {
  return qpn ? fmt::format("QPN 0x{:06x}", *qpn) : "QPN unknown";
}

std::string milliseconds(Timestamp start, Timestamp time) {
  return fmt::format("{:.3f}", static_cast<double>(static_cast<int64_t>(time - start)) / 1e6);
}

std::string duration_text(DurationNs duration) {
  constexpr std::array<const char*, 3> kUnits = {"ns", "us", "ms"};
  auto value = static_cast<double>(duration);
  for (const char* unit : kUnits) {
    // What would be rounded up to four digits is a thing of the next unit.
    if (value < 999.5) return fmt::format("{:.3g} {}", value, unit);
    value /= 1000;
  }
  return value < 999.5 ? fmt::format("{:.3g} s", value) : fmt::format("{:.0f} s", value);
}

std::string count_text(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string endpoint_text(const trace::Endpoint& endpoint) {
  return gid_text(endpoint.gid) + ' ' + qpn_text(endpoint.qpn);
}

std::string_view service_name(trace::Service service) {
  switch (service) {
    case trace::Service::kRc:
      return "RC";
    case trace::Service::kUc:
      return "UC";
    case trace::Service::kUd:
      return "UD";
    case trace::Service::kGsi:
      return "connection manager";
    case trace::Service::kUnknown:
      return "unknown transport";
  }
  return "";
}

}  // namespace verbena::explain
