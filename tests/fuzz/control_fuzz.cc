// Messages of a hostile client on the control socket of a whole daemon, which runs in this process:
// any operation in any order with any body, header and descriptors, on several connections.
//
// At the end of each input: every message was answered or ended its connection; no descriptor is
// left over; and a bystander's objects are as they were, though the attacker named their handles.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "dpdk/log.h"
#include "dpdk/serve.h"
#include "dpdk/unique_fd.h"
#include "stack/abi/control.h"
#include "tests/fuzz/input.h"
#include "tests/support/temp_dir.h"

namespace verbena::fuzz {
namespace {

using abi::Op;

constexpr uint32_t kMostMessages = 60;
constexpr size_t kMostDescriptors = 253;  // SCM_MAX_FD
constexpr std::string_view kDevice = "verbena0";

struct Answer {
  bool dropped = false;
  uint32_t error = 0;
  std::vector<uint8_t> body;

  template <typename T>
  T as() const {
    T value{};
    std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
    return value;
  }
};

class Connection {
 public:
  explicit Connection(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const timeval limit{20, 0};
    setsockopt(socket_.value(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    require(connect(socket_.value(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
            "the daemon takes connections");
  }

  Answer call(std::span<const uint8_t> message, std::span<const int> fds) {
    if (ended_) return {.dropped = true};
    ended_ = !send(message, fds);
    Answer answer = ended_ ? Answer{.dropped = true} : receive();
    ended_ = answer.dropped;
    return answer;
  }

  template <typename Body>
  Answer call(Op op, const Body& body, std::span<const int> fds = {}) {
    constexpr uint32_t kBytes = std::is_empty_v<Body> ? 0 : sizeof(Body);
    const abi::Request head{abi::kMagic, abi::kAbiVersion, op, kBytes};
    std::array<uint8_t, sizeof head + kBytes> message;
    std::memcpy(message.data(), &head, sizeof head);
    std::memcpy(message.data() + sizeof head, &body, kBytes);
    return call(message, fds);
  }
  Answer open() {
    abi::OpenDevice body{};
    kDevice.copy(body.device_name, sizeof body.device_name);
    const UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    return call(Op::kOpenDevice, body, std::array{memory.value()});
  }

  bool ended() const { return ended_; }
  int fd() const { return socket_.value(); }
  std::vector<UniqueFd> received;

 private:
  bool send(std::span<const uint8_t> message, std::span<const int> fds) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
    iovec iov{const_cast<uint8_t*>(message.data()), message.size()};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    ssize_t sent;
    do {
      sent = sendmsg(socket_.value(), &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
  }

  Answer receive() {
    std::array<uint8_t, abi::kMaxMessage> bytes;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
    iovec iov{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t got;
    do {
      got = recvmsg(socket_.value(), &header, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);  // libFuzzer's alarm
    require(got >= 0 || errno == ECONNRESET, "every message is answered or ends the connection");
    if (got <= 0) return {.dropped = true};
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
        int fd;
        std::memcpy(&fd, reinterpret_cast<char*>(c) + at, sizeof fd);
        received.emplace_back(fd);
      }
    }
    abi::Reply reply;
    require(static_cast<size_t>(got) >= sizeof reply, "an answer has a header");
    std::memcpy(&reply, bytes.data(), sizeof reply);
    require(static_cast<size_t>(got) == sizeof reply + reply.body_bytes, "which says its length");
    return {false, reply.error, {bytes.data() + sizeof reply, bytes.data() + got}};
  }

  UniqueFd socket_;
  bool ended_ = false;
};

// The daemon, and a client of it that behaves.
class Victim {
 public:
  Victim() {
    const std::string run = directory_.file("run");
    const char* const words[] = {"verbenad",  "--dir", run.c_str(),
                                 "--idle-ms", "0",     "--foreground"};
    const ParsedOptions parsed = parse_options(std::size(words), words);
    require(!parsed.stop, "the options are good");
    options_ = parsed.options;
    open_log(directory_.file("log"), "error");
    std::promise<void> serving;
    thread_ = std::thread([this, &serving] {
      InstanceDir dir(options_.dir);
      serve(options_, dir, [&serving] { serving.set_value(); });
    });
    serving.get_future().wait();
    bystander_ = std::make_unique<Connection>(path());
    make_bystander();
    fds_ = open_fds();
  }
  ~Victim() {
    bystander_.reset();
    constexpr std::string_view kWord = "shutdown";
    std::array<char, kWord.size()> word;
    kWord.copy(word.data(), word.size());
    (void)Connection(path()).call(Op::kAdmin, word);
    thread_.join();
  }

  std::string path() const { return options_.dir + "/control.sock"; }
  const std::vector<uint32_t>& handles() const { return handles_; }

  // After all of the attacker's connections were closed.
  void check() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    size_t open = 0;
    while ((open = open_fds()) > fds_) {
      require(std::chrono::steady_clock::now() < limit, "no descriptor is left over");
      check_bystander();  // gives the daemon its turn
    }
    fds_ = open;  // fewer when some were still being closed before
    check_bystander();
  }

 private:
  static size_t open_fds() {
    size_t count = 0;
    DIR* directory = opendir("/proc/self/fd");
    require(directory != nullptr, "the descriptors can be counted");
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    return count;
  }

  Answer bystander_call(Op op, const auto& body) {
    const Answer answer = bystander_->call(op, body);
    require(!answer.dropped && answer.error == 0, "a client that behaves is served");
    return answer;
  }

  uint32_t made(const Answer& answer) {
    handles_.push_back(answer.as<abi::Handle>().handle);
    return handles_.back();
  }

  void make_bystander() {
    require(bystander_->open().error == 0, "a client that behaves can open a device");
    const uint32_t pd = made(bystander_call(Op::kAllocPd, abi::Empty{}));
    made(bystander_call(Op::kRegMr, abi::RegMr{pd, 1, 4096, 4096, 4096}));
    const uint32_t cq = made(bystander_call(Op::kCreateCq, abi::CreateCq{1, 16, 0}));
    const uint32_t srq = made(bystander_call(Op::kCreateSrq, abi::CreateSrq{1, pd, 16, 1, 0}));
    abi::CreateQp qp{};
    qp.pd = pd;
    qp.send_cq = qp.recv_cq = cq;
    qp.srq = srq;
    qp.qp_type = 2;
    qp.max_send_wr = qp.max_send_sge = 1;
    qp_ = made(bystander_call(Op::kCreateQp, qp));
    abi::ModifyQp init{};
    init.handle = qp_;
    init.attr_mask = 0x39;  // state, access flags, P_Key index, port
    init.attr.qp_state = init.attr.port_num = 1;
    bystander_call(Op::kModifyQp, init);
    queried_ = bystander_call(Op::kQueryQp, abi::Handle{qp_, 0}).body;
  }

  void check_bystander() {
    require(bystander_call(Op::kQueryQp, abi::Handle{qp_, 0}).body == queried_,
            "the bystander's queue pair is as it was");
    bystander_call(Op::kQuerySrq, abi::Handle{handles_[3], 0});
  }

  test::TempDir directory_;
  Options options_;
  std::thread thread_;
  std::unique_ptr<Connection> bystander_;
  std::vector<uint32_t> handles_;
  uint32_t qp_ = 0;
  std::vector<uint8_t> queried_;
  size_t fds_ = 0;
};

struct Shape {
  Op op;
  uint32_t body_bytes;
};
constexpr Shape kShapes[] = {
    {Op::kOpenDevice, sizeof(abi::OpenDevice)},
    {Op::kQueryPort, 0},
    {Op::kAllocPd, 0},
    {Op::kDeallocPd, sizeof(abi::Handle)},
    {Op::kRegMr, sizeof(abi::RegMr)},
    {Op::kDeregMr, sizeof(abi::Handle)},
    {Op::kReregMr, sizeof(abi::ReregMr)},
    {Op::kCreateChannel, 0},
    {Op::kCreateCq, sizeof(abi::CreateCq)},
    {Op::kResizeCq, sizeof(abi::ResizeCq)},
    {Op::kDestroyCq, sizeof(abi::Handle)},
    {Op::kCreateQp, sizeof(abi::CreateQp)},
    {Op::kModifyQp, sizeof(abi::ModifyQp)},
    {Op::kQueryQp, sizeof(abi::Handle)},
    {Op::kDestroyQp, sizeof(abi::Handle)},
    {Op::kCreateSrq, sizeof(abi::CreateSrq)},
    {Op::kModifySrq, sizeof(abi::ModifySrq)},
    {Op::kQuerySrq, sizeof(abi::Handle)},
    {Op::kDestroySrq, sizeof(abi::Handle)},
    {Op::kCreateAh, sizeof(abi::CreateAh)},
    {Op::kDestroyAh, sizeof(abi::Handle)},
    {Op::kAdmin, 8},
};

class Attack {
 public:
  Attack(Victim& victim, Input input) : victim_(victim), in_(input) {}

  void run() {
    for (uint32_t i = 0; i < kMostMessages && !in_.empty(); ++i) act();
    connections_ = {};
    victim_.check();
  }

 private:
  struct Attacker {
    std::unique_ptr<Connection> connection;
    std::vector<uint32_t> handles;
  };

  void act() {
    const uint8_t choice = in_.byte();
    Attacker& attacker = connections_[choice & 1];
    if (attacker.connection == nullptr || attacker.connection->ended()) {
      attacker = {std::make_unique<Connection>(victim_.path()), {}};
      if (choice & 2) (void)attacker.connection->open();
    }
    switch ((choice >> 2) % 16) {
      case 0:
        attacker = {};
        break;
      case 1:
        attacker.connection->received.clear();
        break;
      case 2:
        write_to_received(*attacker.connection);
        break;
      default:
        send_message(attacker);
        break;
    }
  }

  // Kicks and events that nobody asked for.
  void write_to_received(Connection& connection) {
    if (connection.received.empty()) return;
    const int fd = in_.pick(connection.received).value();
    const auto bytes = in_.bytes(in_.byte());
    for (uint32_t times = 0; times <= in_.byte(); ++times) {
      (void)!::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }

  // Bytes of the input, in which 0xEE marks where a handle goes: one of ours or of the bystander's.
  std::vector<uint8_t> body(const Attacker& attacker, uint32_t bytes) {
    const auto given = in_.bytes(bytes);
    std::vector<uint8_t> body(given.begin(), given.end());
    body.resize(bytes);
    for (size_t at = 0; at + 4 <= body.size(); at += 4) {
      if (body[at] != 0xEE) continue;
      const bool own = (body[at + 1] & 1) != 0 && !attacker.handles.empty();
      const std::vector<uint32_t>& handles = own ? attacker.handles : victim_.handles();
      const uint32_t handle = handles[body[at + 2] % handles.size()];
      std::memcpy(&body[at], &handle, sizeof handle);
    }
    return body;
  }

  std::vector<int> descriptors(const Connection& connection, Op op) {
    const uint8_t choice = in_.byte();
    const auto& received = connection.received;
    if (choice == 0) {  // as it should be
      const bool destroys = op == Op::kDestroyCq || op == Op::kDestroyQp || op == Op::kDestroySrq;
      if (destroys && received.size() > 2) return {received[2].value()};
      return {};
    }
    const size_t count = choice < 200 ? choice % 4 : kMostDescriptors - (choice - 200U);
    std::vector<int> fds;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t kind = i < 4 ? in_.byte() : 0;
      const bool own = kind >= 4 && !received.empty();
      fds.push_back(own ? received[kind % received.size()].value()
                        : (kind & 1 ? connection.fd() : STDIN_FILENO));
    }
    return fds;
  }

  void send_message(Attacker& attacker) {
    const Shape& shape = in_.pick(kShapes);
    const uint8_t lies = in_.byte();
    uint32_t body_bytes = shape.body_bytes;
    if (lies & 1) body_bytes = in_.number<uint16_t>() % 5000;
    abi::Request request{abi::kMagic, abi::kAbiVersion, shape.op, body_bytes};
    if (lies & 2) request.op = static_cast<Op>(in_.number<uint32_t>());
    if (lies & 4) request.body_bytes = in_.number<uint32_t>();
    if (lies & 8) request.abi_version = in_.byte();
    if (lies & 16) request.magic ^= in_.byte();
    const std::vector<uint8_t> bytes = body(attacker, body_bytes);
    const std::string_view words(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // These end this process's daemon, or write files: tests of their own are about them.
    if (words.starts_with("shutdown") || words.starts_with("capture")) return;
    std::vector<uint8_t> message(sizeof request + bytes.size());
    std::memcpy(message.data(), &request, sizeof request);
    if (!bytes.empty()) std::memcpy(&message[sizeof request], bytes.data(), bytes.size());
    if (lies & 32) message.resize(in_.byte() % message.size());
    const std::vector<int> fds = descriptors(*attacker.connection, request.op);
    const Answer answer = attacker.connection->call(message, fds);
    if (answer.body.size() >= sizeof(uint32_t)) {
      attacker.handles.push_back(answer.as<abi::Handle>().handle);
    }
  }

  Victim& victim_;
  Input in_;
  std::array<Attacker, 2> connections_;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static verbena::fuzz::Victim victim;
  verbena::fuzz::Attack(victim, {data, size}).run();
  return 0;
}
