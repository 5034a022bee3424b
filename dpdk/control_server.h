// ControlServer: the control thread. Takes connections, reads requests, notices deaths, keeps the
// counters of the virtual sysfs fresh, and ends the daemon on a signal or on `shutdown`.
//
// Never waits for a client: a message is there or is not, a reply is taken at once or the client is
// dropped. A client is dropped too when its process dies, though a forked child of it may still
// hold the socket. A connection that asks for nothing ends after ten seconds, and one without an
// open device when its place is needed: a program that opens a device finds one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dpdk/admin.h"
#include "dpdk/client.h"
#include "dpdk/daemon.h"
#include "dpdk/run_dir.h"
#include "dpdk/sysfs_tree.h"
#include "dpdk/unique_fd.h"

namespace verbena {

class ControlServer final : public ClientHost {
 public:
  // The signals that end the daemon must be blocked in all threads. Throws std::runtime_error.
  ControlServer(Daemon& daemon, InstanceDir& dir, SysfsTree& sysfs);

  // The thread's body. At its end all clients are gone and the worker has been told to stop.
  void run();

 private:
  enum class Source : uint32_t { kListener, kSignals, kTimer, kClient, kDeath, kChannel };

  // ClientHost
  std::string admin(std::string_view words) override;
  void watch_channel(uint64_t client, uint32_t channel, int fd) override;

  bool watch(int fd, Source source, uint64_t client, uint32_t channel, uint32_t events);
  void handle(uint64_t tag, uint32_t events);
  // False: the connection is over.
  static bool serve(Client& client);
  void accept_all();
  void adopt(ForeignFd socket);
  void refuse_one();
  bool make_room();
  void drop_undecided();
  void refresh_counters();
  void drain(int fd);

  Daemon& daemon_;
  InstanceDir& dir_;
  SysfsTree& sysfs_;
  Admin admin_;
  UniqueFd epoll_;
  UniqueFd listener_;
  UniqueFd signals_;
  UniqueFd timer_;
  UniqueFd spare_;  // given up to refuse a connection when descriptors have run out
  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  uint64_t last_serial_ = 0;
  uint64_t seen_activity_ = 0;
  bool stop_ = false;
};

}  // namespace verbena
