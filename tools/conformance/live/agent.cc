#include "tools/conformance/live/agent.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tools/error.h"

namespace verbena::conformance::live {
namespace {

using nlohmann::json;

constexpr time_t kPatienceSeconds = 20;

tools::UniqueFd connect_to(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    throw tools::CommandError(fmt::format("{} is no host", host), "a name or an IP address");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  tools::UniqueFd fd(socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0));
  const timeval patience{kPatienceSeconds, 0};
  const int on = 1;
  setsockopt(fd.value(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(fd.value(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd.value(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd.value(), list->ai_addr, list->ai_addrlen) == 0) return fd;
  throw tools::CommandError(
      fmt::format("nobody answers at {}, TCP port {}: {}", host, port, std::strerror(errno)),
      fmt::format("run at the target: verbena-conformance-target --port {}", port));
}

}  // namespace

Agent::Agent(const std::string& host, uint16_t port) : fd_(connect_to(host, port)) {}

json Agent::ask(const json& request) {
  const std::string text = request.dump() + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(fd_.value(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) throw AgentError("the target's agent has gone");
    sent += static_cast<size_t>(count);
  }
  size_t end = 0;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    char bytes[65536];
    const ssize_t count = recv(fd_.value(), bytes, sizeof bytes, 0);
    if (count <= 0) throw AgentError("the target's agent has gone, or does not answer");
    buffer_.append(bytes, static_cast<size_t>(count));
  }
  json answer = json::parse(buffer_.substr(0, end), nullptr, false);
  buffer_.erase(0, end + 1);
  if (!answer.is_object()) throw AgentError("the target's agent does not answer in JSON");
  if (answer.contains("error")) {
    throw AgentError(fmt::format("the target says: {}", answer["error"].get<std::string>()));
  }
  return answer;
}

}  // namespace verbena::conformance::live
