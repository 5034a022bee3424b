#include "dpdk/options.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "stack/abi/control.h"

namespace verbena {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Decimal, or hexadecimal after 0x.
bool parse_number(std::string_view text, uint64_t max, uint64_t& value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end && !text.empty() && value <= max;
}

bool name_valid(std::string_view name) {
  constexpr size_t kMaxName = sizeof(abi::OpenDevice::device_name) - 1;
  if (name.empty() || name.size() > kMaxName || name[0] == '.') return false;
  for (const char c : name) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-' || c == '.';
    if (!ok) return false;
  }
  return true;
}

std::string parse_ip(std::string_view text, uint32_t& ip) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) {
    return fmt::format("'{}' is not an IPv4 address: write for example ip=10.99.0.1", text);
  }
  const uint32_t value = ntohl(address.s_addr);
  const uint32_t first = value >> 24;
  if (first == 0 || first == 127 || first >= 224) {
    return fmt::format("{} cannot be the address of a device: choose an ordinary (unicast) one",
                       text);
  }
  ip = value;
  return {};
}

std::string parse_vendor(std::string_view text, DeviceIdentity& device) {
  if (text == "mlx5") {  // ConnectX-5: perftest then uses inline data and ibv_wr_*
    device.vendor_id = 0x02C9;
    device.part_id = 4119;
    return {};
  }
  if (text == "rxe") {
    device.vendor_id = 0xFFFFFF;
    device.part_id = 0;
    return {};
  }
  const auto parts = split(text, ':');
  uint64_t id = 0;
  uint64_t part = kOwnPartId;
  const bool ok = parts.size() <= 2 && parse_number(parts[0], 0xFFFFFF, id) && id != 0 &&
                  (parts.size() == 1 || parse_number(parts[1], UINT32_MAX, part));
  if (!ok) {
    return fmt::format("vendor '{}' is unknown: write mlx5, rxe or ID[:PART], e.g. 0x02c9:4119",
                       text);
  }
  device.vendor_id = static_cast<uint32_t>(id);
  device.part_id = static_cast<uint32_t>(part);
  return {};
}

std::string check_pair(const std::array<DeviceIdentity, 2>& devices) {
  if (devices[0].name == devices[1].name) {
    return fmt::format("both devices are named '{}': give them different names", devices[0].name);
  }
  if (devices[0].ip == devices[1].ip) {
    return fmt::format("both devices have the address {}: give them different ones",
                       devices[0].ip_text());
  }
  if (devices[0].mac() == devices[1].mac()) {
    return fmt::format(
        "{} and {} would share a MAC address: choose addresses that differ in the last three bytes",
        devices[0].ip_text(), devices[1].ip_text());
  }
  return {};
}

std::string fill_devices(const std::vector<std::string>& words, Options& options) {
  options.devices[0] = {.name = "verbena0", .ip = 0x0A630001};
  options.devices[1] = {.name = "verbena1", .ip = 0x0A630002};
  if (!words.empty() && words.size() != 2) {
    return fmt::format(
        "--device was given {} time{}: the wire joins two devices, so give it twice or not at all",
        words.size(), words.size() == 1 ? "" : "s");
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (auto wrong = parse_device(words[i], options.devices[i]); !wrong.empty()) {
      return "--device " + words[i] + ": " + wrong;
    }
  }
  return check_pair(options.devices);
}

std::string fill_dir(Options& options) {
  if (options.dir.empty()) {
    if (const char* dir = std::getenv("VERBENA_DIR"); dir != nullptr) options.dir = dir;
  }
  if (options.dir.empty()) return "which instance? Write --dir DIR, or set VERBENA_DIR";
  std::error_code error;
  options.dir = std::filesystem::absolute(options.dir, error).lexically_normal().string();
  while (options.dir.size() > 1 && options.dir.back() == '/') options.dir.pop_back();
  constexpr size_t kMaxDir = 107 - sizeof("/control.sock") + 1;  // sun_path and its NUL
  if (options.dir.size() > kMaxDir) {
    return fmt::format("--dir {}: too long for a socket's path; at most {} characters", options.dir,
                       kMaxDir);
  }
  return {};
}

Refusal fill_faults(const std::vector<std::string>& specs, Options& options) {
  const DeviceNames names = {options.devices[0].name, options.devices[1].name};
  for (const std::string& spec : specs) {
    FaultRule rule;
    if (Refusal refusal = parse_fault_rule(spec, names, rule)) {
      refusal.what = fmt::format("--fault {}: {}", spec, refusal.what);
      return refusal;
    }
    options.faults.push_back(std::move(rule));
  }
  if (options.faults.size() > kMaxFaultRules) {
    return {fmt::format("--fault was given {} times", options.faults.size()),
            fmt::format("at most {} rules", kMaxFaultRules)};
  }
  return {};
}

Refusal finish(const std::vector<std::string>& devices, const std::vector<std::string>& faults,
               Options& options) {
  if (auto wrong = fill_dir(options); !wrong.empty()) return {std::move(wrong), {}};
  if (auto wrong = fill_devices(devices, options); !wrong.empty()) return {std::move(wrong), {}};
  return fill_faults(faults, options);
}

void refuse(ParsedOptions& parsed, Refusal refusal) {
  const std::string_view write = refusal.instead.empty() ? "" : ": write ";
  parsed.text = fmt::format("verbenad: {}{}{}\n", refusal.what, write, refusal.instead);
  parsed.refusal = std::move(refusal);
  parsed.stop = true;
  parsed.exit_status = 2;
}

}  // namespace

std::string parse_device(std::string_view text, DeviceIdentity& device) {
  const auto parts = split(text, ',');
  if (!name_valid(parts[0])) {
    return fmt::format(
        "'{}' cannot be a device's name: use letters, digits, '_', '-' and '.' (at most 63)",
        parts[0]);
  }
  device.name = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string wrong;
    if (parts[i].starts_with("ip=")) {
      wrong = parse_ip(parts[i].substr(3), device.ip);
    } else if (parts[i].starts_with("vendor=")) {
      wrong = parse_vendor(parts[i].substr(7), device);
    } else if (parts[i] == "migreq=0" || parts[i] == "migreq=1") {
      device.mig_req = parts[i].back() == '1';
    } else if (parts[i].starts_with("migreq=")) {
      wrong = fmt::format("'{}': MigReq is a bit: write migreq=0 or migreq=1", parts[i]);
    } else {
      wrong = fmt::format(
          "'{}' is unknown: write NAME[,ip=A.B.C.D][,vendor=mlx5|rxe|ID[:PART]][,migreq=0|1]",
          parts[i]);
    }
    if (!wrong.empty()) return wrong;
  }
  return {};
}

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  std::vector<std::string> devices;
  std::vector<std::string> faults;
  CLI::App app("verbenad: RoCEv2 network adapters in software, for the programs of one user.");
  app.set_version_flag("--version", "verbenad " VERBENA_VERSION);
  app.add_option("--dir", options.dir, "Instance directory (default: $VERBENA_DIR)");
  app.add_option("--device", devices,
                 "NAME[,ip=A.B.C.D][,vendor=mlx5|rxe|ID[:PART]]; twice, or not at all "
                 "(then verbena0 at 10.99.0.1 and verbena1 at 10.99.0.2)")
      ->allow_extra_args(false);
  app.add_option("--fault", faults,
                 "A rule for faults of the wire, e.g. drop=1%,dup=0.01,delay=10us; may be given "
                 "several times (docs/daemon.md has all words)")
      ->allow_extra_args(false);
  app.add_flag("--poll", options.poll, "Never sleep");
  app.add_option("--idle-ms", options.idle_ms, "Sleep after so long without work")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  app.add_flag("--foreground", options.foreground, "Stay in the foreground");
  app.add_option("--log-level", options.log_level, "Detail of verbenad.log")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--ready-fd", options.ready_fd, "Write a byte to this descriptor when serving")
      ->check(CLI::Range(0, 1 << 20));

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    parsed.stop = true;
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.text = "verbenad " VERBENA_VERSION "\n";
    parsed.stop = true;
    return parsed;
  } catch (const CLI::ParseError& error) {
    refuse(parsed, {fmt::format("{}. 'verbenad --help' lists the options.", error.what()), {}});
    return parsed;
  }
  if (Refusal refusal = finish(devices, faults, options)) refuse(parsed, std::move(refusal));
  return parsed;
}

}  // namespace verbena
