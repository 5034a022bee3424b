// The provider's objects behind libibverbs' structures, and the verbs by file.
//
// Invariant: an object's first member is libibverbs' own structure, so that a pointer to the one is
// a pointer to the other.
//
// Locks, outermost first: Context::qp_mutex, a send or receive queue's, a completion queue's, a
// shared receive queue's, the control socket's. The data path takes one lock per call (polling
// takes that of a shared receive queue as well), makes no allocation, and no system call but a kick
// to a sleeping daemon and, on empty polls, a yield and a look at the daemon's life.
//
// The contract with the daemon is in stack/abi/; docs/client-abi.md tells it as a story.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "provider/control_client.h"
#include "provider/qp_map.h"
#include "provider/rdma_core_abi.h"
#include "provider/spin_lock.h"
#include "stack/abi/control.h"
#include "stack/abi/cqe.h"
#include "stack/abi/ring.h"
#include "stack/abi/wqe.h"

namespace verbena::provider {

// A shared-memory region from the daemon.
struct Mapping {
  uint8_t* base = nullptr;
  size_t bytes = 0;
};

// Maps the fd and closes it, in any case. Forked children do not inherit the pages. 0 or an errno.
int map_region(int fd, size_t bytes, int protection, Mapping& mapping);
void unmap_region(Mapping& mapping);

// Which channel of the daemon's is behind a completion channel's fd.
class ChannelTable {
 public:
  ChannelTable() = default;
  ~ChannelTable();
  ChannelTable(const ChannelTable&) = delete;
  ChannelTable& operator=(const ChannelTable&) = delete;

  // The application closes fds without telling us: the last registration of a number wins.
  int add(int fd, uint32_t handle);
  uint32_t find(int fd);  // 0: none

 private:
  struct Entry {
    int fd;
    uint32_t handle;
  };
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Entry* entries_ = nullptr;
  size_t count_ = 0;
  size_t capacity_ = 0;
};

struct Context {
  verbs_context base;

  ControlClient control;
  abi::DeviceLimits limits;
  Mapping worker_mapping;
  Mapping doorbell_mapping;
  const abi::WorkerPage* worker;
  abi::DoorbellPage* doorbells;
  int kick_fd;
  bool preload_registered;
  ChannelTable channels;
  // Held from a request that makes or ends a queue pair until the maps of its completion queues
  // agree: the daemon may give the number of a destroyed queue pair to the next one.
  // The counts of users of shared receive queues change under it too.
  pthread_mutex_t qp_mutex;
};

class MutexGuard {
 public:
  explicit MutexGuard(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~MutexGuard() { pthread_mutex_unlock(&mutex_); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

struct Pd {
  ibv_pd pd;
};

struct Mr {
  rdma::MrBase base;
  uint64_t iova;
};

struct Cq {
  rdma::CqBase base;

  SpinLock lock;  // of everything below
  Mapping mapping;
  abi::CqHeader* header;
  abi::Cqe* entries;
  uint32_t depth;
  uint32_t consumer;  // free-running
  uint32_t arm;       // last value stored in the header
  uint32_t empty_polls;
  uint64_t next_look_ms;  // when to look again whether the daemon lives
  QpMap qps;
  uint32_t flush_cursor;  // slot of `qps` where the next local flush begins
  // Between ibv_start_poll() and ibv_end_poll(), which hold the lock:
  ibv_wc current;
  uint64_t current_timestamp;
};

// The client's half of a send or receive ring.
struct WorkQueue {
  SpinLock lock;  // of posting
  uint8_t* ring;
  uint32_t mask;  // depth - 1
  uint32_t stride;
  uint32_t max_wr;
  uint32_t max_sge;
  std::atomic<uint32_t> tail;     // free-running; written under `lock`
  std::atomic<uint32_t> retired;  // free-running; written under the completion queue's lock
  // One per slot. Atomic (relaxed) because poster and poller order them through the rings.
  std::atomic<uint64_t>* wr_ids;

  uint8_t* slot(uint32_t index) const { return ring + static_cast<size_t>(index & mask) * stride; }
  bool full(uint32_t next) const {
    return next - retired.load(std::memory_order_acquire) >= max_wr;
  }
};

// The client's half of a shared receive queue. Its work requests complete out of order, so slots
// are handed out and taken back, one by one.
struct Srq {
  ibv_srq srq;

  Mapping mapping;
  abi::SrqHeader* header;
  std::atomic<uint32_t>* index;  // ring of slot numbers, in the order of posting
  uint8_t* slots;
  uint32_t mask;  // depth - 1
  uint32_t stride;
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t users;  // queue pairs; under Context::qp_mutex

  struct Slot {
    uint64_t wr_id;
    uint32_t next;  // in the list of free slots, or one of the two below
  };
  static constexpr uint32_t kLast = 0xFFFFFFFF;
  static constexpr uint32_t kPosted = 0xFFFFFFFE;

  SpinLock lock;  // of everything below
  uint32_t tail;  // free-running
  uint32_t first_free;
  Slot* slot_table;  // max_wr of them
};

struct Ah {
  ibv_ah ah;
};

struct Qp {
  rdma::QpBase base;

  Context* context;
  Mapping mapping;
  abi::QpHeader* header;
  uint32_t doorbell_slot;
  uint32_t max_inline;
  bool sq_sig_all;
  // The last state that the application set; RESET while a change to it is under way. Whether
  // posting is allowed depends on nothing else: the daemon may move the queue pair to SQE or ERR by
  // itself, where posting is allowed and flushes.
  std::atomic<uint32_t> state;
  WorkQueue sq;
  WorkQueue rq;       // without a ring when there is a shared one
  Srq* srq;           // null: none
  uint64_t send_ops;  // IBV_QP_EX_WITH_* asked for at creation
  // Between ibv_wr_start() and ibv_wr_complete(), which hold the send lock:
  uint32_t batch_next;
  int batch_error;
  abi::SendWqe* batch_wqe;  // null: none begun, or begun in error
};

inline Context* to_context(ibv_context* context) {
  return reinterpret_cast<Context*>(reinterpret_cast<uint8_t*>(context) -
                                    offsetof(verbs_context, context));
}
inline Cq* to_cq(ibv_cq* cq) {
  return reinterpret_cast<Cq*>(cq);
}
inline Cq* to_cq(ibv_cq_ex* cq) {
  return reinterpret_cast<Cq*>(cq);
}
inline Qp* to_qp(ibv_qp* qp) {
  return reinterpret_cast<Qp*>(qp);
}
inline Qp* to_qp(ibv_qp_ex* qp) {
  return reinterpret_cast<Qp*>(qp);
}
inline Srq* to_srq(ibv_srq* srq) {
  return reinterpret_cast<Srq*>(srq);
}
inline Mr* to_mr(rdma::MrBase* mr) {
  return reinterpret_cast<Mr*>(mr);
}

// Verbs that return a pointer report their error so.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

// verbs_objects_mr.cc
ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access);
int dereg_mr(rdma::MrBase* mr);
int rereg_mr(rdma::MrBase* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access);

// memory_map.cc: 0 when all of the range is mapped readable (and writable), else EFAULT.
int check_mapped(uint64_t begin, uint64_t length, bool writable);

// verbs_objects_cq.cc
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(ibv_cq* cq);

// The daemon takes the object's undelivered events out of our ends of the sockets. 0 or an errno.
int destroy_at_daemon(Context& context, abi::Op op, uint32_t handle, abi::DestroyReply& delivered,
                      const ibv_comp_channel* channel = nullptr);

// verbs_objects_qp.cc
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
int destroy_qp(ibv_qp* qp);

// verbs_objects_srq.cc
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attr);
int destroy_srq(ibv_srq* srq);

// verbs_objects_ah.cc
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr);
int destroy_ah(ibv_ah* ah);

// verbs_data_srq.cc
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
// The work request in this slot has completed: the slot is free again. Returns its wr_id.
uint64_t retire_srq_slot(Srq& srq, uint32_t slot);

// verbs_data_post.cc
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
// Work requests up to the tail are in the ring: tells the daemon.
void ring_doorbell(Qp& qp);
// May sends be posted in this state? (C10-96 and the state table of ibv_modify_qp)
bool may_post_send(const Qp& qp);

// verbs_data_wr.cc: the ibv_wr_* functions of a queue pair.
inline constexpr uint64_t kSupportedSendOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
inline constexpr uint64_t kSupportedUdSendOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
void set_wr_functions(Qp& qp, uint64_t send_ops);

// verbs_data_poll.cc
int poll_cq(ibv_cq* cq, int num_entries, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
inline constexpr uint64_t kSupportedWcFlags =
    static_cast<uint64_t>(IBV_WC_STANDARD_FLAGS) | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
void set_poll_functions(Cq& cq);
// Discards the entries of a queue pair, and frees their slots of its shared receive queue. The
// caller holds the lock of `cq`.
void purge_cq(Cq& cq, const Qp& qp);

}  // namespace verbena::provider
