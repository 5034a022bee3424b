#include "tools/admin.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "stack/abi/control.h"
#include "tools/error.h"
#include "tools/status_text.h"

namespace verbena::tools {

namespace {

constexpr int kAnswerTimeoutMs = 10'000;
constexpr off_t kMaxAnswerBytes = 64 << 20;

CommandError broken(const std::string& what) {
  return {fmt::format("the daemon's answer is not usable: {}", what),
          "see its verbenad.log; `verbena down` and `verbena up` start a fresh one"};
}

void send_words(int socket, std::string_view words) {
  abi::Request request{};
  request.magic = abi::kMagic;
  request.abi_version = abi::kAbiVersion;
  request.op = abi::Op::kAdmin;
  request.body_bytes = static_cast<uint32_t>(words.size());
  if (sizeof(request) + words.size() > abi::kMaxMessage) {
    throw CommandError("the request is too long for the daemon", "use a shorter path");
  }
  std::vector<char> message(sizeof(request) + words.size());
  std::memcpy(message.data(), &request, sizeof(request));
  std::memcpy(message.data() + sizeof(request), words.data(), words.size());
  if (::send(socket, message.data(), message.size(), MSG_NOSIGNAL) < 0) {
    throw broken(std::strerror(errno));
  }
}

void wait_for_answer(int socket) {
  pollfd poll_fd{.fd = socket, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&poll_fd, 1, kAnswerTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) throw broken("none came within 10 seconds");
}

// The daemon's one descriptor, or an invalid one. Further ones, which no daemon of ours sends, are
// closed.
UniqueFd take_descriptor(msghdr* message) {
  UniqueFd first;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      UniqueFd owned(fd);
      if (!first.valid()) first = std::move(owned);
    }
  }
  return first;
}

UniqueFd receive_answer(int socket) {
  abi::Reply reply{};
  iovec piece{.iov_base = &reply, .iov_len = sizeof(reply)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (length < 0) throw broken(std::strerror(errno));
  UniqueFd memory = take_descriptor(&message);
  if (length == 0) throw broken("it closed the connection");
  if (length != sizeof(reply) || reply.magic != abi::kMagic || reply.op != abi::Op::kAdmin) {
    throw broken("it speaks another protocol; is it of another version?");
  }
  if (reply.error == EPROTO) {
    throw CommandError("the daemon that is up is of another version than this command",
                       "`verbena down` and `verbena up`");
  }
  // With a text, the text says what is wrong.
  if (!memory.valid()) {
    throw broken(reply.error != 0 ? std::strerror(static_cast<int>(reply.error))
                                  : "no text came with it");
  }
  return memory;
}

std::string read_all(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) throw broken(std::strerror(errno));
  if (st.st_size < 0 || st.st_size > kMaxAnswerBytes) throw broken("it is too large");
  std::string text(static_cast<size_t>(st.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0) throw broken(std::strerror(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

std::optional<AdminClient> AdminClient::connect(const RunDir& dir) {
  struct stat st {};
  if (::lstat(dir.path.c_str(), &st) != 0 && errno == ENOENT) return std::nullopt;
  check_run_dir(dir);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw CommandError(fmt::format("socket: {}", std::strerror(errno)), "");
  const timeval patience{.tv_sec = kAnswerTimeoutMs / 1000, .tv_usec = 0};
  ::setsockopt(socket.value(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir.socket().string();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);  // find_run_dir checked the length
  // sockaddr_un to sockaddr is how the socket interface is made.
  if (::connect(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    throw CommandError(fmt::format("cannot connect to {}: {}", path, std::strerror(errno)),
                       "verbena doctor");
  }
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket.value(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      peer.uid != ::geteuid()) {
    throw CommandError(fmt::format("the process behind {} is not yours (user {})", path, peer.uid),
                       fmt::format("rm -r {}", dir.path.string()));
  }
  return AdminClient(std::move(socket), peer.pid);
}

AdminClient AdminClient::connect_or_fail(const RunDir& dir) {
  std::optional<AdminClient> client = connect(dir);
  if (!client) {
    throw CommandError(fmt::format("no daemon is up in {}", dir.path.string()),
                       fmt::format("verbena up{}", dir.name_option()));
  }
  return std::move(*client);
}

nlohmann::json AdminClient::ask(std::string_view words) const {
  send_words(socket_.value(), words);
  wait_for_answer(socket_.value());
  const UniqueFd memory = receive_answer(socket_.value());
  nlohmann::json answer = nlohmann::json::parse(read_all(memory.value()), nullptr, false);
  if (answer.is_discarded()) throw broken("it is not JSON");
  if (answer.is_object() && answer.contains("error")) {
    const auto& error = answer["error"];
    throw CommandError(fmt::format("the daemon says: {}",
                                   error.is_string() ? error.get<std::string>() : error.dump()),
                       field(answer, "try"));
  }
  return answer;
}

}  // namespace verbena::tools
