// verbena-conformance-target: runs beside the device under test, and sets up there what each case
// of `verbena conformance run --target` needs. An ordinary verbs program: it needs libibverbs and
// the device's driver, nothing of Verbena.
//
// It serves one connection at a time, and one case for each connection: requests and answers are
// lines of JSON, described in docs/conformance.md. Who can connect can use the device's memory that
// the case registers, and nothing else.
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tools/target/session.h"
#include "tools/unique_fd.h"

namespace verbena::target {
namespace {

using nlohmann::json;
using tools::UniqueFd;

constexpr uint16_t kDefaultPort = 18515;
constexpr size_t kLongestLine = size_t{64} << 20;

struct Options {
  std::string device;
  uint16_t port = kDefaultPort;
};

// Lines in, lines out.
class Connection {
 public:
  explicit Connection(UniqueFd fd) : fd_(std::move(fd)) {}

  // Nothing when the tester has gone.
  std::optional<std::string> line() {
    size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      char bytes[65536];
      const ssize_t count = recv(fd_.value(), bytes, sizeof bytes, 0);
      if (count <= 0 || buffer_.size() > kLongestLine) return std::nullopt;
      buffer_.append(bytes, static_cast<size_t>(count));
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

  bool say(const json& answer) {
    // An error may quote what the tester sent, which need not be UTF-8.
    const std::string text = answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = send(fd_.value(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }

 private:
  UniqueFd fd_;
  std::string buffer_;
};

// Objects and arrays within each other: more than any request has.
constexpr int kDeepest = 16;

// A text nested without end would need a stack without end.
json parse_request(const std::string& line) {
  return json::parse(line, [](int depth, json::parse_event_t, const json&) {
    if (depth > kDeepest) throw std::runtime_error("a request nested too deeply");
    return true;
  });
}

// The request of one line, carried out.
json answer_to(const json& request, const Options& options, std::optional<Port>& port,
               std::optional<Session>& session) {
  const std::string what = request.at("do");
  if (what == "open") {
    session.reset();
    port = open_port(parse_gid(request.at("address")), options.device);
    session.emplace(*port, request);
    return session->numbers();
  }
  if (!session) throw std::runtime_error("'" + what + "' before 'open'");
  if (what == "recv") {
    session->post_recv(request.at("index"));
  } else if (what == "store") {
    session->store(request.at("memory"), request.at("offset"), request.at("bytes"));
  } else if (what == "modify") {
    session->modify(request.at("qp"), request.at("state"));
  } else if (what == "result") {
    return session->result();
  } else {
    throw std::runtime_error("'" + what + "' is no request");
  }
  return json::object();
}

void serve(Connection connection, const Options& options) {
  std::optional<Port> port;
  std::optional<Session> session;
  while (const auto line = connection.line()) {
    json answer;
    try {
      answer = answer_to(parse_request(*line), options, port, session);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
      std::fprintf(stderr, "verbena-conformance-target: %s\n", error.what());
    }
    if (!connection.say(answer)) return;
  }
}

UniqueFd listen_on(uint16_t port) {
  UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd.value(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (bind(fd.value(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.value(), 16) != 0) {
    throw std::runtime_error("TCP port " + std::to_string(port) + ": " + std::strerror(errno) +
                             "; choose another one with --port");
  }
  return fd;
}

constexpr char kUsage[] =
    "usage: verbena-conformance-target [--port PORT] [--device NAME]\n"
    "Serves `verbena conformance run --target`, which tests an RDMA device of this machine.\n"
    "  --port PORT     TCP port to listen on (18515)\n"
    "  --device NAME   use this device only, as ibv_devices names it\n";

uint16_t port_of(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) {
    throw std::runtime_error("--port " + std::string(text) + ": write a number from 1 to 65535");
  }
  return port;
}

std::optional<Options> options_of(int argc, char** argv) {
  static const option kLong[] = {{"port", required_argument, nullptr, 'p'},
                                 {"device", required_argument, nullptr, 'd'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  Options options;
  for (int letter = 0; (letter = getopt_long(argc, argv, "p:d:h", kLong, nullptr)) != -1;) {
    if (letter == 'p') {
      options.port = port_of(optarg);
    } else if (letter == 'd') {
      options.device = optarg;
    } else {
      std::fputs(kUsage, letter == 'h' ? stdout : stderr);
      std::exit(letter == 'h' ? 0 : 2);
    }
  }
  return optind == argc ? std::optional(options) : std::nullopt;
}

constexpr time_t kLongestSilenceSeconds = 120;  // a case has at most 60 s of waiting behind it

int run(int argc, char** argv) {
  const auto options = options_of(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const UniqueFd listener = listen_on(options->port);
  std::fprintf(stderr, "verbena-conformance-target: listening on TCP port %u\n", options->port);
  for (;;) {
    UniqueFd fd(accept4(listener.value(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    // A tester that falls silent makes way for the next one.
    const timeval longest{kLongestSilenceSeconds, 0};
    setsockopt(fd.value(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    serve(Connection(std::move(fd)), *options);
  }
}

}  // namespace
}  // namespace verbena::target

int main(int argc, char** argv) {
  try {
    return verbena::target::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbena-conformance-target: %s\n", error.what());
    return 1;
  }
}
