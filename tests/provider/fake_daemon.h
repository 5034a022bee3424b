// A daemon for the provider's unit tests: speaks the control protocol from a thread, hands out real
// rings, and does with them only what a test says.
//
// Rings are mapped a second time, as in the real daemon: what the provider stores shows here
// through shared memory alone. The test's thread reads and writes rings; the control thread answers
// requests; state() locks what both use.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stack/abi/control.h"
#include "stack/abi/cqe.h"
#include "stack/abi/ring.h"
#include "stack/abi/wqe.h"
#include "tests/support/temp_dir.h"

namespace verbena::test {

struct SharedRegion {
  int fd = -1;
  uint8_t* base = nullptr;
  size_t bytes = 0;

  explicit SharedRegion(size_t size);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;
};

struct FakeCq {
  abi::CreateCq request{};
  uint32_t depth = 0;
  uint32_t producer = 0;
  std::unique_ptr<SharedRegion> region;

  abi::CqHeader& header() { return *reinterpret_cast<abi::CqHeader*>(region->base); }
  abi::Cqe& entry(uint32_t index);
  // Appends a completion: all of `cqe` but its sequence.
  void push(uint32_t qpn, uint32_t wqe_index, abi::CqeKind kind,
            abi::WcStatus status = abi::WcStatus::kSuccess);
};

struct FakeQp {
  abi::CreateQp request{};
  abi::QpLayout layout{};
  std::unique_ptr<SharedRegion> region;
  std::vector<abi::ModifyQp> changes;

  abi::QpHeader& header() { return *reinterpret_cast<abi::QpHeader*>(region->base); }
  // The entry and what follows it, up to its stride.
  const uint8_t* send_entry(uint32_t index) const;
  const uint8_t* recv_entry(uint32_t index) const;
  abi::SendWqe send_wqe(uint32_t index) const;
};

struct FakeSrq {
  abi::CreateSrq request{};
  abi::SrqLayout layout{};
  std::unique_ptr<SharedRegion> region;
  std::vector<abi::ModifySrq> changes;

  uint32_t tail() {
    return reinterpret_cast<abi::SrqHeader*>(region->base)->tail.load(std::memory_order_acquire);
  }
  // Slot of the work request posted as number `index`, and what lies in a slot.
  uint32_t slot_at(uint32_t index) const;
  const uint8_t* slot(uint32_t number) const;
};

class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const std::string& directory() const { return directory_.path(); }

  // Everything below: only with the lock held.
  std::unique_lock<std::mutex> state() { return std::unique_lock(mutex_); }
  std::vector<abi::Op> ops;            // all requests so far
  std::vector<uint8_t> last_body;      // of the last request
  size_t last_fd_count = 0;            // passed with the last request
  std::map<abi::Op, uint32_t> errors;  // answer the op with this errno
  abi::DestroyReply delivered{};       // answer to destroy requests
  abi::QpAttr query_answer{};
  bool reuse_qpns = false;  // a destroyed queue pair's number goes to the next
  std::map<uint32_t, std::shared_ptr<FakeCq>> cqs;  // by handle
  std::map<uint32_t, std::shared_ptr<FakeQp>> qps;
  std::map<uint32_t, std::shared_ptr<FakeSrq>> srqs;
  std::map<uint32_t, abi::CreateAh> ahs;
  abi::SrqAttr srq_answer{};
  bool unsound_srqs = false;  // layouts that do not fit their region
  int memory_fd = -1;         // the client's /proc/self/mem

  std::shared_ptr<FakeCq> only_cq();
  std::shared_ptr<FakeQp> only_qp();

  abi::WorkerPage& worker() { return *reinterpret_cast<abi::WorkerPage*>(worker_.base); }
  abi::DoorbellPage& doorbells() { return *reinterpret_cast<abi::DoorbellPage*>(doorbells_.base); }
  std::vector<uint32_t> drain_doorbells();
  // How many kicks have come since the last call.
  int kicks();
  void send_async(uint64_t element, uint32_t type);
  // An event on the channel that was made last.
  void send_completion_event(uint64_t user_handle);

  // Ends as a killed daemon does: every descriptor closes. Not with the lock held.
  void die();

 private:
  struct Reply {
    uint32_t error = 0;
    std::vector<uint8_t> body;
    std::vector<int> fds;
  };

  void serve();
  bool serve_one(int connection);
  Reply answer(abi::Op op, const std::vector<uint8_t>& body, const std::vector<int>& fds);
  Reply open_device(const std::vector<int>& fds);
  Reply create_channel();
  Reply create_cq(const std::vector<uint8_t>& body);
  Reply resize_cq(const std::vector<uint8_t>& body);
  Reply create_qp(const std::vector<uint8_t>& body);
  Reply create_srq(const std::vector<uint8_t>& body);
  Reply create_ah(const std::vector<uint8_t>& body);
  void send_reply(int connection, abi::Op op, const Reply& reply);
  void close_events();

  verbena::test::TempDir directory_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  int async_fd_ = -1;
  int kick_fd_ = -1;
  std::vector<int> channels_;
  SharedRegion worker_{4096};
  SharedRegion doorbells_{4096};
  uint32_t next_handle_ = 1;
  uint32_t next_qpn_ = 0x100;
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace verbena::test
