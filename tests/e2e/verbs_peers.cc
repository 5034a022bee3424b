// Processes that use verbs, for tests that start many of them, kill them, or kill the daemon.
//
//   verbs_peers pair SECONDS MESSAGES BYTES   two processes exchange verified messages
//   verbs_peers watch poll|cq-event|async-event   one process that waits for what never comes
//   verbs_peers orphan   a process that forks and leaves a child with all its descriptors
//
// Each prints "ready" with its pids once it is set up, then one line with its outcome. Devices as
// in verbs_pair.h. Exit status: 0 as planned, 3 the connection broke, 1 anything else.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "tests/e2e/verbs_pair.h"

namespace verbena::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBroken = 3;
constexpr uint32_t kLast = 1;  // immediate of the last message

struct BrokenConnection : std::exception {};

struct PeerInfo {
  Address address;
  uint64_t va;
  uint32_t rkey;
};

PeerInfo exchange(int socket, const PeerInfo& mine) {
  PeerInfo theirs{};
  if (send(socket, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
      recv(socket, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs)) {
    fail("the other process is gone before the connection was made");
  }
  return theirs;
}

// Both processes meet here, so that nobody sends before the other is ready.
void meet(int socket) {
  exchange(socket, {});
}

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// One side of `pair`.
class Side {
 public:
  Side(size_t device, size_t bytes)
      : rnic_(device_name(device)),
        endpoint_(rnic_),
        out_(endpoint_.pd(), bytes, 1),
        in_(endpoint_.pd(), bytes, 3),
        shared_(endpoint_.pd(), bytes, 5) {}

  void connect_over(int socket) {
    const PathOptions path{.mtu = IBV_MTU_4096, .timeout = 14, .retry_cnt = 7};
    peer_ = exchange(socket, {endpoint_.address(), shared_.va(), shared_.rkey()});
    endpoint_.to_init();
    endpoint_.to_rtr(peer_.address, path);
    endpoint_.to_rts(path);
    post_receive();
    meet(socket);
  }

  void post_receive() {
    const ibv_sge sge = in_.sge();
    post_recv(endpoint_, 1, std::span(&sge, 1));
  }

  void send_message(uint64_t seed, bool last) {
    fill_pattern(out_.bytes(), seed);
    run({1, IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, {out_.sge()}, 0, 0, last ? kLast : 0});
  }
  // Waits for the message and checks it; was it the last?
  bool receive_message(uint64_t seed) {
    const ibv_wc wc = wait_message();
    if (first_difference(in_.bytes(), seed) != in_.bytes().size()) fail("received bytes differ");
    const bool last = ntohl(wc.imm_data) == kLast;
    if (!last) post_receive();
    return last;
  }
  // Writes to the other side's memory and reads it back.
  void write_and_read_back(uint64_t seed) {
    fill_pattern(out_.bytes(), seed);
    run({2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {out_.sge()}, peer_.va, peer_.rkey});
    fill_pattern(out_.bytes(), seed + 1);
    run({3, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, {out_.sge()}, peer_.va, peer_.rkey});
    if (first_difference(out_.bytes(), seed) != out_.bytes().size()) fail("read bytes differ");
  }

 private:
  void run(const SendRequest& request) {
    post_send(endpoint_, request);
    finished(wait_completion(endpoint_.send_cq()));
  }
  // A receive alone never notices that the peer is dead, so empty WRITEs ask now and then.
  ibv_wc wait_message() {
    for (;;) {
      const auto end = Clock::now() + std::chrono::milliseconds(200);
      ibv_wc wc{};
      while (Clock::now() < end) {
        if (ibv_poll_cq(endpoint_.recv_cq(), 1, &wc) == 1) return finished(wc);
        std::this_thread::yield();
      }
      run({4, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {}, peer_.va, peer_.rkey});
    }
  }
  static ibv_wc finished(const ibv_wc& wc) {
    if (wc.status == IBV_WC_SUCCESS) return wc;
    std::printf("broken: %s\n", ibv_wc_status_str(wc.status));
    throw BrokenConnection();
  }

  Rnic rnic_;
  Endpoint endpoint_;
  Buffer out_;
  Buffer in_;
  Buffer shared_;
  PeerInfo peer_{};
};

void run_requester(int socket, std::chrono::milliseconds time, uint64_t messages, size_t bytes) {
  Side side(0, bytes);
  side.connect_over(socket);
  std::printf("ready requester=%d responder=%d\n", getpid(), getppid());
  std::fflush(stdout);
  const auto end = Clock::now() + time;
  for (uint64_t i = 1;; ++i) {
    const bool last = i >= messages && Clock::now() >= end;
    side.write_and_read_back(i * 7);
    side.send_message(i * 2, last);
    side.receive_message(i * 2 + 1);
    if (!last) continue;
    std::printf("ok messages=%lu\n", static_cast<unsigned long>(i));
    return;
  }
}

void run_responder(int socket, size_t bytes) {
  Side side(1, bytes);
  side.connect_over(socket);
  for (uint64_t i = 1;; ++i) {
    const bool last = side.receive_message(i * 2);
    side.send_message(i * 2 + 1, last);
    if (last) return;
  }
}

int guarded(const auto& body) {
  try {
    body();
    return 0;
  } catch (const BrokenConnection&) {
    return kBroken;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}

// The parent is the responder, the child the requester: killing the parent must not end the child,
// whose completions are what the tests look at.
int run_pair(std::chrono::milliseconds time, uint64_t messages, size_t bytes) {
  int sockets[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
  const pid_t child = fork();
  if (child < 0) fail_errno("fork", errno);
  close(sockets[child == 0 ? 1 : 0]);
  if (child == 0) {
    return guarded([&] { run_requester(sockets[0], time, messages, bytes); });
  }
  const int mine = guarded([&] { run_responder(sockets[1], bytes); });
  int status = 0;
  waitpid(child, &status, 0);
  const int its = WIFEXITED(status) ? WEXITSTATUS(status) : kBroken;
  return mine != 0 ? mine : its;
}

// ---- watch: the daemon will be killed ----

class Watcher {
 public:
  static constexpr size_t kReceives = 20;

  Watcher()
      : rnic_(device_name(0)),
        channel_(make_channel(rnic_.context())),
        cq_(make_cq(rnic_.context(), 64, channel_.get())),
        a_(rnic_, options()),
        b_(rnic_, options()) {
    connect(a_, b_);
    for (uint64_t i = 0; i < kReceives; ++i) post_recv(a_, i, {});
    // A send that stays without a receive: something is outstanding in both queues.
    post_send(a_, {kReceives, IBV_WR_SEND, IBV_SEND_SIGNALED, {}});
    check(ibv_req_notify_cq(cq_.get(), 0), "ibv_req_notify_cq");
    tolerate_teardown_errors();
  }

  // Polls until everything posted is flushed, in order.
  void poll() {
    const auto wcs = wait_completions(cq_.get(), kReceives + 1);
    const int64_t at = monotonic_ns();
    uint64_t next = 0;
    for (const ibv_wc& wc : wcs) {
      if (wc.status == IBV_WC_SUCCESS) fail("a completion that succeeded");
      if (wc.wr_id == kReceives) continue;
      if (wc.wr_id != next++) fail("receives flushed out of order");
    }
    std::printf("flushed at=%ld count=%zu\n", static_cast<long>(at), wcs.size());
    // What is posted now must not get lost or hang either.
    ibv_wc wc{};
    const int after = try_post_recv(a_, 99, {});
    if (after == 0) wc = wait_completion(cq_.get());
    if (after == 0 && wc.status == IBV_WC_SUCCESS) fail("a receive succeeded without a daemon");
  }

  void wait_cq_event() {
    ibv_cq* from = nullptr;
    void* context = nullptr;
    const int result = ibv_get_cq_event(channel_.get(), &from, &context);
    std::printf("returned at=%ld result=%d\n", static_cast<long>(monotonic_ns()), result);
    if (result == 0) ibv_ack_cq_events(from, 1);
  }

  void wait_async_event() {
    ibv_async_event event{};
    const int result = ibv_get_async_event(rnic_.context(), &event);
    std::printf("returned at=%ld result=%d event=%s\n", static_cast<long>(monotonic_ns()), result,
                result == 0 ? ibv_event_type_str(event.event_type) : "none");
    if (result == 0) ibv_ack_async_event(&event);
  }

 private:
  QpOptions options() const {
    QpOptions options;
    options.send_cq = options.recv_cq = cq_.get();
    return options;
  }

  Rnic rnic_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> cq_;
  Endpoint a_;
  Endpoint b_;
};

void run_watch(const std::string& what) {
  Watcher watcher;
  std::printf("ready watcher=%d\n", getpid());
  std::fflush(stdout);
  if (what == "poll") return watcher.poll();
  if (what == "cq-event") return watcher.wait_cq_event();
  if (what == "async-event") return watcher.wait_async_event();
  fail("watch what? poll, cq-event or async-event");
}

// ---- orphan ----

void run_orphan() {
  Rnic rnic(device_name(0));
  Endpoint endpoint(rnic);
  Buffer buffer(endpoint.pd(), 100'000);
  const pid_t child = fork();
  if (child == 0) {
    sleep(60);
    _exit(0);
  }
  std::printf("ready parent=%d child=%d\n", getpid(), child);
  std::fflush(stdout);
  sleep(60);
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "pair" && argc == 5) {
    return run_pair(std::chrono::milliseconds(static_cast<long>(1000 * std::atof(argv[2]))),
                    std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
  }
  if (mode == "watch" && argc == 3) return guarded([&] { run_watch(argv[2]); });
  if (mode == "orphan" && argc == 2) return guarded(run_orphan);
  std::fprintf(stderr,
               "usage: verbs_peers pair SECONDS MESSAGES BYTES\n"
               "       verbs_peers watch poll|cq-event|async-event\n"
               "       verbs_peers orphan\n");
  return 2;
}

}  // namespace
}  // namespace verbena::e2e

int main(int argc, char** argv) {
  return verbena::e2e::run(argc, argv);
}
