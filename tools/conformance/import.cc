#include "tools/conformance/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/conformance/input_file.h"
#include "tools/conformance/known_differences.h"
#include "tools/conformance/names.h"
#include "tools/conformance/rc_import.h"
#include "tools/conformance/runner.h"
#include "tools/conformance/ud_import.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

std::string end_name(const trace::Endpoint& end) {
  return end.qpn ? fmt::format("QP 0x{:x} of {}", *end.qpn, ip_text(end.gid))
                 : fmt::format("a QP of {}", ip_text(end.gid));
}

std::string connection_name(const trace::Connection& connection) {
  return fmt::format("{} and {}", end_name(connection.sides[0]), end_name(connection.sides[1]));
}

// What is no business of a case, by the kind of connection.
const char* other_service(trace::Service service) {
  switch (service) {
    case trace::Service::kUc:
      return "UC, which Verbena does not do yet";
    case trace::Service::kGsi:
      return "datagrams of the connection manager (QP 1)";
    case trace::Service::kUnknown:
      return "nothing but CNPs";
    case trace::Service::kRc:
    case trace::Service::kUd:
      break;
  }
  return nullptr;
}

class Importer {
 public:
  Importer(const trace::Capture& capture, const trace::Trace& trace)
      : capture_(capture), trace_(trace) {}

  void run() {
    for (const trace::Connection& connection : trace_.connections) import(connection);
    for (Case& c : import_datagrams(trace_, result.skipped)) cases.push_back(std::move(c));
  }

  std::vector<Case> cases;
  Imported result;

 private:
  void import(const trace::Connection& connection);

  const trace::Capture& capture_;
  const trace::Trace& trace_;
};

void Importer::import(const trace::Connection& connection) {
  if (connection.service == trace::Service::kUd) return;
  const auto skip = [&](const std::string& reason) {
    result.skipped.push_back(fmt::format("{}: {}", connection_name(connection), reason));
  };
  if (const char* reason = other_service(connection.service)) return skip(reason);
  if (const auto reason = reason_to_skip_rc(trace_, connection)) return skip(*reason);
  for (const unsigned side : {0U, 1U}) {
    RcImport rc(capture_, trace_, connection, side);
    if (const auto reason = rc.reason_to_skip()) {
      result.skipped.push_back(fmt::format("{}: {}", end_name(connection.sides[side]), *reason));
    } else {
      cases.push_back(rc.make());
    }
  }
}

std::string plural(size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "RC, 10.0.0.1 with 10.0.0.2 as requester: 2 SENDs, 1 RDMA_READ"
std::string title_of(const Case& c) {
  std::map<std::string, size_t> asked;
  for (const SendSection& send : c.sends) ++asked[word_of_enum(kWrOpcodeNames, send.opcode)];
  std::vector<std::string> parts;
  for (const auto& [name, count] : asked) parts.push_back(plural(count, name));
  if (!c.recvs.empty()) parts.push_back(plural(c.recvs.size(), "receive"));
  if (!c.memories.empty()) parts.push_back(plural(c.memories.size(), "region"));
  const std::string role =
      c.role == Role::kBoth ? "requester and responder" : word_of_enum(kRoleNames, c.role);
  const bool rc = c.qps[0].type == QpType::kRc;
  return fmt::format(
      "{}, {}{} as {}: {}", rc ? "RC" : "UD", ip_text(c.device.gid),
      rc ? fmt::format(" with {}", ip_text(c.qps[0].peer.gid)) : "", role,
      parts.empty() ? "requests refused" : fmt::format("{}", fmt::join(parts, ", ")));
}

// STEM.ROLE.toml, numbered where there are several of a role.
void name_files(std::vector<Case>& cases, const std::filesystem::path& capture,
                const std::filesystem::path& folder) {
  std::map<Role, size_t> roles;
  for (const Case& c : cases) ++roles[c.role];
  std::map<Role, size_t> named;
  for (Case& c : cases) {
    std::string name = capture.stem().string() + '.' + word_of_enum(kRoleNames, c.role);
    if (roles[c.role] > 1) name += fmt::format(".{}", ++named[c.role]);
    c.file = folder / (name + ".toml");
    c.capture = capture;
    c.title = title_of(c);
  }
}

// With the differences that are known; a difference may bring another to light.
CaseResult run_with_differences(Case& c, const trace::Capture& capture) {
  constexpr size_t kMostRounds = 4;
  CaseResult result = run_case(c, capture);
  for (size_t round = 0; round < kMostRounds && !result.passed(); ++round) {
    if (add_known_differences(c, capture, result) == 0) break;
    result = run_case(c, capture);
  }
  return result;
}

}  // namespace

Imported import_capture(const std::filesystem::path& path, const std::filesystem::path& folder) {
  constexpr const char* kHelp = "a pcap or pcapng file of Ethernet or IP packets";
  need_regular_file(path, kHelp);
  const trace::Capture capture = trace::read_capture(path);
  if (capture.frames.empty()) {
    throw tools::CommandError(fmt::format("{} cannot be read: {}", path.string(),
                                          capture.error.empty() ? "it is empty" : capture.error),
                              kHelp);
  }
  return import_capture(capture, path, folder);
}

Imported import_capture(const trace::Capture& capture, const std::filesystem::path& path,
                        const std::filesystem::path& folder) {
  const trace::Trace trace = trace::analyse(capture);
  Importer importer(capture, trace);
  importer.run();
  name_files(importer.cases, path, folder);
  importer.result.stopped_by = capture.error;
  std::vector<std::string>& skipped = importer.result.skipped;
  for (Case& c : importer.cases) {
    try {
      CaseResult result = run_with_differences(c, capture);
      importer.result.cases.push_back({std::move(c), std::move(result)});
    } catch (const tools::CommandError& error) {
      skipped.emplace_back(error.what());  // it asks for more than a device has
    }
  }
  if (trace.packets.empty()) {
    skipped.emplace_back("the capture holds no RoCEv2 packet");
  } else if (trace.connections.empty()) {
    skipped.emplace_back("the capture holds no packet that a receiver would take");
  }
  return std::move(importer.result);
}

}  // namespace verbena::conformance
