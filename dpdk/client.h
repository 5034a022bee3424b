// Client: one control connection, and all that it owns. See stack/abi/control.h for the messages.
//
// Control thread only; whatever concerns the engine goes through the worker's command queue.
// Nothing that a client sends is believed: sizes, reserved fields and the number of descriptors are
// checked before an operation starts, the engine checks ownership and limits.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dpdk/daemon.h"
#include "dpdk/message.h"
#include "dpdk/proc_memory.h"
#include "dpdk/shm.h"
#include "dpdk/unique_fd.h"

namespace verbena {

struct PeerIdentity {
  int pid = 0;
  uint32_t uid = 0;
};

// What a client asks of the server that holds it.
class ClientHost {
 public:
  virtual ~ClientHost() = default;
  // A line of an admin connection; the answer is JSON.
  virtual std::string admin(std::string_view words) = 0;
  // Tell the client (channel_closed) when the other end of `fd` has gone.
  virtual void watch_channel(uint64_t client, uint32_t channel, int fd) = 0;
};

class Client {
 public:
  Client(uint64_t serial, ForeignFd socket, UniqueFd pidfd, PeerIdentity peer, Daemon& daemon,
         ClientHost& host);
  // Destroys all that the client owns.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Handles what has come, up to a bound. False: the connection is over.
  bool serve();
  // The other end of a channel has gone; channel_fd() is -1 when there is none of this number.
  void channel_closed(uint32_t channel);
  int channel_fd(uint32_t channel) const;

  const PeerIdentity& peer() const { return peer_; }
  int socket() const { return socket_.value(); }
  int pidfd() const { return pidfd_.value(); }
  // Only with an open device.
  bool open() const { return phase_ == Phase::kDevice; }
  // Neither a device nor an administrator's line was asked for yet.
  bool undecided() const { return phase_ == Phase::kNew; }
  std::chrono::steady_clock::time_point since() const { return since_; }
  uint32_t device_index() const { return worker_client_.device; }
  ClientId id() const { return worker_client_.id; }

 private:
  enum class Phase { kNew, kDevice, kAdmin };

  struct Channel {
    ForeignFd fd;
    uint64_t client_cookie = 0;
    uint32_t users = 0;
    bool closed = false;  // the client has closed its end
  };
  // Rings, as long as the object lives.
  struct Rings {
    RingBudget::Loan loan;
    SharedRegion memory;
  };
  struct Cq {
    Rings rings;
    uint32_t channel = 0;  // 0 = none
  };

  template <typename T>
  static T body_of(const ReceivedMessage& message) {
    static_assert(std::is_trivially_copyable_v<T>);
    T body;
    std::memcpy(&body, message.bytes.data() + sizeof(abi::Request), sizeof body);
    return body;
  }

  // The answer to one request: an errno, or a struct and descriptors.
  struct Answer {
    int error = 0;
    uint32_t body_bytes = 0;
    std::array<uint8_t, 512> body{};
    std::vector<int> fds;  // sent; not owned
    UniqueFd given;        // closed once sent

    template <typename T>
    void set(const T& value) {
      static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof body);
      std::memcpy(body.data(), &value, sizeof value);
      body_bytes = sizeof value;
    }
    void set(Status status) { error = status.error(); }
  };
  struct Operation {
    abi::Op op;
    uint32_t body_bytes;
    uint32_t min_fds;
    uint32_t max_fds;
    uint32_t reserved_at;  // offset in the body of a u32 that must be zero; 0 = none
    void (Client::*handle)(const ReceivedMessage&, Answer&);
  };
  static std::span<const Operation> operations();

  bool handle(const ReceivedMessage& message);
  bool reply(abi::Op op, const Answer& answer);
  bool phase_allows(abi::Op op) const;

  void open_device(const ReceivedMessage& message, Answer& answer);
  void query_port(const ReceivedMessage& message, Answer& answer);
  void alloc_pd(const ReceivedMessage& message, Answer& answer);
  void dealloc_pd(const ReceivedMessage& message, Answer& answer);
  void reg_mr(const ReceivedMessage& message, Answer& answer);
  void dereg_mr(const ReceivedMessage& message, Answer& answer);
  void rereg_mr(const ReceivedMessage& message, Answer& answer);
  void create_channel(const ReceivedMessage& message, Answer& answer);
  void create_cq(const ReceivedMessage& message, Answer& answer);
  void resize_cq(const ReceivedMessage& message, Answer& answer);
  void destroy_cq(const ReceivedMessage& message, Answer& answer);
  void create_qp(const ReceivedMessage& message, Answer& answer);
  void modify_qp(const ReceivedMessage& message, Answer& answer);
  void query_qp(const ReceivedMessage& message, Answer& answer);
  void destroy_qp(const ReceivedMessage& message, Answer& answer);
  void create_srq(const ReceivedMessage& message, Answer& answer);
  void modify_srq(const ReceivedMessage& message, Answer& answer);
  void query_srq(const ReceivedMessage& message, Answer& answer);
  void destroy_srq(const ReceivedMessage& message, Answer& answer);
  void create_ah(const ReceivedMessage& message, Answer& answer);
  void destroy_ah(const ReceivedMessage& message, Answer& answer);
  bool handle_admin(const ReceivedMessage& message, uint32_t body_bytes);

  void release_channel(uint32_t channel);
  Result<Rings> make_rings(const char* name, uint64_t bytes);
  // The client's descriptor of the memory; the daemon keeps none.
  static void give(Rings& rings, Answer& answer);
  // Runs `call(device)` on the polling thread.
  template <typename Call>
  auto on_worker(Call&& call) {
    using Value = std::invoke_result_t<Call, Device&>;
    if constexpr (std::is_void_v<Value>) {
      daemon_.worker.commands().run([&] { call(device()); });
    } else {
      std::optional<Value> value;
      daemon_.worker.commands().run([&] { value.emplace(call(device())); });
      return std::move(*value);
    }
  }
  Device& device() { return *daemon_.devices[worker_client_.device].device; }

  const uint64_t serial_;
  ForeignFd socket_;
  UniqueFd pidfd_;
  const PeerIdentity peer_;
  Daemon& daemon_;
  ClientHost& host_;
  Phase phase_ = Phase::kNew;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();

  WorkerClient worker_client_;
  std::unique_ptr<ProcMemory> memory_;
  SharedRegion doorbells_;
  ForeignFd async_;
  uint64_t async_cookie_ = 0;
  UniqueFd kick_;
  std::map<uint32_t, Channel> channels_;
  uint32_t last_channel_ = 0;
  RingBudget::Account ring_account_;
  std::map<CqId, Cq> cqs_;
  std::map<Qpn, Rings> qps_;
  std::map<SrqId, Rings> srqs_;
};

}  // namespace verbena
