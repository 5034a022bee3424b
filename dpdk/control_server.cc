#include "dpdk/control_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>

#include "dpdk/log.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif

namespace verbena {
namespace {

constexpr long kRefreshNs = 100'000'000;
constexpr int kAcceptsPerTurn = 64;
constexpr size_t kMaxClients = 4096;
constexpr std::chrono::seconds kTimeToDecide{10};  // from the connection to the first request

// Tags of epoll: source, channel and client in one word. A client's number is never used again, so
// a late event finds nothing.
constexpr unsigned kSourceBits = 3;
constexpr unsigned kChannelBits = 24;
constexpr uint32_t kChannelMask = (1U << kChannelBits) - 1;

UniqueFd peer_pidfd(int socket, int pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return UniqueFd(fd);
  if (errno != ENOPROTOOPT) return {};  // it has ended: its number may be another's by now
  return UniqueFd(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
}

UniqueFd open_null() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

ControlServer::ControlServer(Daemon& daemon, InstanceDir& dir, SysfsTree& sysfs)
    : daemon_(daemon),
      dir_(dir),
      sysfs_(sysfs),
      admin_(daemon),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      listener_(dir.listen()),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      spare_(open_null()) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  const itimerspec period{{0, kRefreshNs}, {0, kRefreshNs}};
  if (!epoll_ || !timer_ || !signals_ ||
      timerfd_settime(timer_.value(), 0, &period, nullptr) != 0 ||
      !watch(listener_.value(), Source::kListener, 0, 0, EPOLLIN) ||
      !watch(signals_.value(), Source::kSignals, 0, 0, EPOLLIN) ||
      !watch(timer_.value(), Source::kTimer, 0, 0, EPOLLIN)) {
    throw std::runtime_error(std::string("cannot watch the control socket: ") +
                             std::strerror(errno));
  }
}

bool ControlServer::watch(int fd, Source source, uint64_t client, uint32_t channel,
                          uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = client << (kSourceBits + kChannelBits) |
                   static_cast<uint64_t>(channel & kChannelMask) << kSourceBits |
                   static_cast<uint64_t>(source);
  return epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void ControlServer::run() {
  std::array<epoll_event, 64> events;
  while (!stop_) {
    const int count =
        epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()), -1);
    for (size_t i = 0; count > 0 && i < static_cast<size_t>(count); ++i) {
      handle(events[i].data.u64, events[i].events);
    }
    if (admin_.shutdown_wanted()) stop_ = true;
  }
  dir_.unlink_socket();
  listener_.reset();
  clients_.clear();
  admin_.finish();
  daemon_.worker.commands().run([this] { daemon_.worker.stop(); });
}

void ControlServer::handle(uint64_t tag, uint32_t events) {
  const auto source = static_cast<Source>(tag & ((1U << kSourceBits) - 1));
  const auto channel = static_cast<uint32_t>(tag >> kSourceBits) & kChannelMask;
  const auto client = clients_.find(tag >> (kSourceBits + kChannelBits));
  switch (source) {
    case Source::kListener:
      accept_all();
      return;
    case Source::kSignals:
      log::info("ending on a signal");
      stop_ = true;
      return;
    case Source::kTimer:
      drain(timer_.value());
      drop_undecided();
      refresh_counters();
      return;
    case Source::kClient:
      // What was sent before the end is handled first; serve() then sees the end itself.
      if (client != clients_.end() && !serve(*client->second)) clients_.erase(client);
      return;
    case Source::kDeath:
      if (client != clients_.end()) clients_.erase(client);
      return;
    case Source::kChannel:
      if (client != clients_.end() && (events & (EPOLLHUP | EPOLLERR)) != 0) {
        const int fd = client->second->channel_fd(channel);
        if (fd >= 0) epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, fd, nullptr);
        client->second->channel_closed(channel);
      }
      return;
  }
}

bool ControlServer::serve(Client& client) {
  try {
    return client.serve();
  } catch (const std::bad_alloc&) {
    log::error("process {}: dropped, there is no memory to serve it", client.peer().pid);
    return false;
  }
}

void ControlServer::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    ForeignFd socket(accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      try {
        adopt(std::move(socket));
      } catch (const std::bad_alloc&) {
        log::error("a connection was refused: there is no memory for it");
      }
    } else if (errno == EMFILE || errno == ENFILE) {
      if (!make_room()) return refuse_one();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

// Without a free descriptor the connection would wait, and wake us, for ever.
void ControlServer::refuse_one() {
  spare_.reset();
  const ForeignFd refused(accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC));
  log::warn("a connection was refused: no descriptors are left (ulimit -n)");
}

// The oldest connection without an open device makes room for a new one.
bool ControlServer::make_room() {
  const auto oldest = std::find_if(clients_.begin(), clients_.end(),
                                   [](const auto& client) { return !client.second->open(); });
  if (oldest == clients_.end()) return false;
  clients_.erase(oldest);
  return true;
}

void ControlServer::drop_undecided() {
  const auto limit = std::chrono::steady_clock::now() - kTimeToDecide;
  std::erase_if(clients_, [&](const auto& entry) {
    Client& client = *entry.second;
    if (!client.undecided() || client.since() > limit) return false;
    // A request may be here already, when it was this daemon that was stopped for so long.
    return !serve(client) || client.undecided();
  });
}

void ControlServer::adopt(ForeignFd socket) {
  if (!spare_) spare_ = open_null();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.value(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != geteuid()) {
    log::warn("a process of user {} was refused", peer.uid);
    return;
  }
  if (clients_.size() >= kMaxClients && !make_room()) {
    log::warn("a connection was refused: {} programs have opened a device", clients_.size());
    return;
  }
  UniqueFd pidfd = peer_pidfd(socket.value(), peer.pid);
  if (!pidfd && peer.pid > 0) return;  // it has ended already
  const uint64_t serial = ++last_serial_;
  auto client = std::make_unique<Client>(serial, std::move(socket), std::move(pidfd),
                                         PeerIdentity{peer.pid, peer.uid}, daemon_, *this);
  const bool watched =
      watch(client->socket(), Source::kClient, serial, 0, EPOLLIN) &&
      (client->pidfd() < 0 || watch(client->pidfd(), Source::kDeath, serial, 0, EPOLLIN));
  if (watched) clients_.emplace(serial, std::move(client));
}

void ControlServer::watch_channel(uint64_t client, uint32_t channel, int fd) {
  watch(fd, Source::kChannel, client, channel, 0);  // EPOLLHUP comes unasked
}

std::string ControlServer::admin(std::string_view words) {
  std::vector<const Client*> open;
  for (const auto& [serial, client] : clients_) {
    if (client->open()) open.push_back(client.get());
  }
  return admin_.answer(words, open);
}

void ControlServer::refresh_counters() {
  if (daemon_.worker.activity() == seen_activity_) return;
  std::array<DeviceStats, 2> stats;
  std::array<PortCounters, 2> ports;
  daemon_.worker.commands().run([&] {
    seen_activity_ = daemon_.worker.activity();  // that of this command included
    for (size_t i = 0; i < stats.size(); ++i) {
      stats[i] = daemon_.devices[i].device->stats();
      ports[i] = daemon_.devices[i].port->counters();
    }
  });
  for (size_t i = 0; i < stats.size(); ++i) sysfs_.update(i, stats[i], ports[i]);
}

void ControlServer::drain(int fd) {
  uint64_t ignored;
  [[maybe_unused]] const ssize_t got = read(fd, &ignored, sizeof ignored);
}

}  // namespace verbena
