// Support for end-to-end tests: RC queue pairs between two devices, over libibverbs' public API
// only.
//
// Both ends may live in one process (two devices, or one), or in two: Endpoint::address() is plain
// data that can be sent over a socket. Everything here throws std::runtime_error with the reason
// when a verb fails or a completion does not come in time; nothing waits without a limit. Objects
// that cannot be destroyed end the process, unless tolerate_teardown_errors() was called.
//
// The devices are named by VERBENA_E2E_DEVICES ("verbena0,verbena1" by default), so the tests run
// on any pair of connected RoCE devices with an IPv4 GID at index 0.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/e2e/test_memory.h"

namespace verbena::e2e {

// How long a completion or event may take before a test fails.
inline constexpr std::chrono::milliseconds kWait{30'000};

inline constexpr int kAccessAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

[[noreturn]] void fail(const std::string& what);  // throws
[[noreturn]] void fail_errno(const std::string& what, int error);
void check(int result, const char* verb);  // fails unless 0 (an errno value, or -1)
void tolerate_teardown_errors();           // the daemon may be gone
void report_teardown(int result, const char* verb);

template <typename T>
T* checked(T* object, const char* verb) {
  if (object == nullptr) fail_errno(verb, errno);
  return object;
}

struct VerbsDeleter {
  void operator()(ibv_context* p) const { report_teardown(ibv_close_device(p), "close_device"); }
  void operator()(ibv_pd* p) const { report_teardown(ibv_dealloc_pd(p), "dealloc_pd"); }
  void operator()(ibv_mr* p) const { report_teardown(ibv_dereg_mr(p), "dereg_mr"); }
  void operator()(ibv_cq* p) const { report_teardown(ibv_destroy_cq(p), "destroy_cq"); }
  void operator()(ibv_qp* p) const { report_teardown(ibv_destroy_qp(p), "destroy_qp"); }
  void operator()(ibv_srq* p) const { report_teardown(ibv_destroy_srq(p), "destroy_srq"); }
  void operator()(ibv_ah* p) const { report_teardown(ibv_destroy_ah(p), "destroy_ah"); }
  void operator()(ibv_comp_channel* p) const {
    report_teardown(ibv_destroy_comp_channel(p), "destroy_comp_channel");
  }
};
template <typename T>
using Owned = std::unique_ptr<T, VerbsDeleter>;

Owned<ibv_cq> make_cq(ibv_context* context, int cqe, ibv_comp_channel* channel = nullptr);
Owned<ibv_mr> make_mr(ibv_pd* pd, std::span<uint8_t> bytes, int access = kAccessAll);
Owned<ibv_comp_channel> make_channel(ibv_context* context);

// Name of the first (0) or second (1) device under test.
std::string device_name(size_t index);

// An opened device with its attributes.
class Rnic {
 public:
  explicit Rnic(const std::string& name);

  ibv_context* context() const { return context_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  const ibv_gid& gid() const { return gid_; }

 private:
  Owned<ibv_context> context_;
  ibv_device_attr attributes_{};
  ibv_gid gid_{};
};

struct QpOptions {
  uint32_t send_wr = 64;
  uint32_t recv_wr = 64;
  uint32_t send_sge = 16;
  uint32_t recv_sge = 16;
  uint32_t inline_data = 0;
  int cqe = 256;
  bool sq_sig_all = false;
  bool extended = false;      // make it usable with ibv_wr_*
  ibv_pd* pd = nullptr;       // a PD of its own when null
  ibv_cq* send_cq = nullptr;  // a CQ of its own when null
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp_type type = IBV_QPT_RC;
};

struct PathOptions {
  ibv_mtu mtu = IBV_MTU_1024;
  uint8_t timeout = 14;  // 67 ms
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;      // without end
  uint8_t min_rnr_timer = 1;  // 10 us
  uint8_t rd_atomic = 4;
  int access = kAccessAll;  // qp_access_flags
};

// What the other end must know.
struct Address {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  ibv_gid gid{};
};

// An RC queue pair with its PD and completion queues.
class Endpoint {
 public:
  explicit Endpoint(Rnic& rnic, const QpOptions& options = {});

  Rnic& rnic() const { return rnic_; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* send_cq() const { return send_cq_; }
  ibv_cq* recv_cq() const { return recv_cq_; }
  ibv_qp* qp() const { return qp_.get(); }
  uint32_t qpn() const { return qp_->qp_num; }
  uint32_t max_inline() const { return max_inline_; }
  bool extended() const { return extended_; }

  Address address() const { return {qpn(), psn_, rnic_.gid()}; }
  void to_init(int access = kAccessAll);
  void to_rtr(const Address& peer, const PathOptions& path = {});
  void to_rts(const PathOptions& path = {});
  void to_state(ibv_qp_state state);  // ERR or RESET: no other attribute needed
  ibv_qp_state state() const;         // asks the device

  // Destroys the queue pair now, keeping the rest.
  void destroy_qp() { qp_.reset(); }

 private:
  Rnic& rnic_;
  Owned<ibv_pd> own_pd_;
  Owned<ibv_cq> own_send_cq_;
  Owned<ibv_cq> own_recv_cq_;
  Owned<ibv_qp> qp_;
  ibv_pd* pd_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* recv_cq_ = nullptr;
  uint32_t max_inline_ = 0;
  uint32_t psn_ = 0;
  bool extended_ = false;
};

// Brings both to RTS, towards each other.
void connect(Endpoint& a, Endpoint& b, const PathOptions& path = {});

// Opens both devices, and connects a queue pair of the first to one of the second.
class Connected {
 public:
  explicit Connected(const QpOptions& qp = {}, const PathOptions& path = {},
                     const std::string& responder_device = device_name(1))
      : rnic_a(device_name(0)), rnic_b(responder_device), a(rnic_a, qp), b(rnic_b, qp) {
    connect(a, b, path);
  }

  Rnic rnic_a;
  Rnic rnic_b;
  Endpoint a;
  Endpoint b;
};

// Memory with a guard page's worth of known bytes on each side, registered exactly (the first byte
// at `misalign` past a page).
class Buffer {
 public:
  Buffer(ibv_pd* pd, size_t bytes, size_t misalign = 0, int access = kAccessAll);

  std::span<uint8_t> bytes() { return memory_.bytes(); }
  uint64_t va() { return reinterpret_cast<uint64_t>(memory_.bytes().data()); }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }
  ibv_sge sge() { return {va(), static_cast<uint32_t>(bytes().size()), lkey()}; }
  ibv_sge sge(size_t offset, size_t length) {
    return {va() + offset, static_cast<uint32_t>(length), lkey()};
  }
  bool guards_intact() const { return memory_.guards_intact(); }

 private:
  GuardedMemory memory_;
  Owned<ibv_mr> mr_;
};

struct SendRequest {
  uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = IBV_SEND_SIGNALED;
  std::vector<ibv_sge> sges;
  uint64_t remote_va = 0;
  uint32_t rkey = 0;
  uint32_t imm = 0;  // host order
};

// Posts all in one chain, by ibv_post_send or, on an extended endpoint, by ibv_wr_*. The try_ form
// returns the errno and, in *bad, the index of the first request that was not posted.
void post_send(Endpoint& endpoint, std::span<const SendRequest> requests);
void post_send(Endpoint& endpoint, const SendRequest& request);
int try_post_send(Endpoint& endpoint, std::span<const SendRequest> requests, size_t* bad = nullptr);

void post_recv(Endpoint& endpoint, uint64_t wr_id, std::span<const ibv_sge> sges);
int try_post_recv(Endpoint& endpoint, uint64_t wr_id, std::span<const ibv_sge> sges);

// The next completion, or a failure after `limit`.
ibv_wc wait_completion(ibv_cq* cq, std::chrono::milliseconds limit = kWait);
std::vector<ibv_wc> wait_completions(ibv_cq* cq, size_t count,
                                     std::chrono::milliseconds limit = kWait);
// As wait_completion, and fails unless it is a success; `what` names it in the message.
ibv_wc wait_success(ibv_cq* cq, const char* what);
// Fails if a completion comes within `time`.
void expect_no_completion(ibv_cq* cq, std::chrono::milliseconds time);

// Waits until the state is reached; fails after `limit`.
void wait_state(Endpoint& endpoint, ibv_qp_state state, std::chrono::milliseconds limit = kWait);

// The next async event of the device, acknowledged; fails after `limit`.
ibv_async_event wait_async_event(ibv_context* context, std::chrono::milliseconds limit = kWait);
// All async events that have come, acknowledged.
std::vector<ibv_async_event> drain_async_events(ibv_context* context);

}  // namespace verbena::e2e
