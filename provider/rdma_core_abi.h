// The private interface between libibverbs and a provider, ABI 34 (rdma-core 36 to 56), declared
// by us: distributions ship no header for it.
//
// Only what a provider needs is here. Types have our names; layouts and function names are those of
// the library. The test `rdma_core_layout` (Meson option rdma_core_source) compares every offset
// with a real rdma-core tree.
//
// What changed within ABI 34: struct ibv_qp_ex grew twice (wr_atomic_write in 44, wr_flush in 45),
// which moved the word behind it that ibv_qp_to_qp_ex() looks at. QpBase covers all three layouts.
// Everything else that is declared here is the same in all of them.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::rdma {

struct ListNode {
  ListNode* next;
  ListNode* prev;
};

enum MatchKind : uint8_t { kMatchSentinel = 0 };

struct MatchEntry {
  void* driver_data;
  union {
    const char* modalias;
    uint64_t driver_id;
  } u;
  uint16_t vendor;
  uint16_t device;
  uint8_t kind;  // MatchKind
};

// A device that libibverbs found in sysfs.
struct SysfsDevice {
  ListNode entry;
  void* provider_data;
  const MatchEntry* match;
  unsigned int flags;
  char sysfs_name[IBV_SYSFS_NAME_MAX];
  dev_t sysfs_cdev;
  char ibdev_name[IBV_SYSFS_NAME_MAX];
  char ibdev_path[IBV_SYSFS_PATH_MAX];
  char modalias[512];
  uint64_t node_guid;
  uint32_t driver_id;
  ibv_node_type node_type;
  int ibdev_idx;
  uint32_t num_ports;
  uint32_t abi_ver;
  timespec time_created;
};

struct DeviceBase;

// match_table must not be null: the library walks it without looking when a device has a driver id.
struct DeviceOps {
  const char* name;
  uint32_t match_min_abi_version;
  uint32_t match_max_abi_version;
  const MatchEntry* match_table;
  const DeviceOps** static_providers;
  bool (*match_device)(SysfsDevice* sysfs_dev);
  verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
  DeviceBase* (*alloc_device)(SysfsDevice* sysfs_dev);
  void (*uninit_device)(DeviceBase* device);
};

struct DeviceBase {
  ibv_device device;
  const DeviceOps* ops;
  std::atomic<int> refcount;
  ListNode entry;
  SysfsDevice* sysfs;
  uint64_t core_support;
};

// DeviceBase::core_support: access flags of the optional range reach reg_mr instead of being
// stripped by the library.
inline constexpr uint64_t kCoreSupportOptionalMrAccess = 1;

enum MrType : int { kMrTypeMr = 0 };

struct MrBase {
  ibv_mr mr;
  MrType type;
  int access;
};

// QpBase::comp_mask: the queue pair has ibv_qp_ex functions.
inline constexpr uint64_t kQpHasEx = 1 << 1;

// The end of struct ibv_qp_ex in rdma-core 36 to 43.
inline constexpr size_t kOldestQpExBytes = offsetof(ibv_qp_ex, wr_abort) + sizeof(void*);

struct QpBase {
  union {
    ibv_qp qp;
    ibv_qp_ex ex;
    struct {
      uint8_t oldest_qp_ex[kOldestQpExBytes];
      // The library's comp_mask is [0] in rdma-core 36 to 43, [1] in 44, [2] in 45 to 56. A slot
      // that is not the mask is wr_atomic_write or wr_flush, which nobody may call on our queue
      // pairs, since creating one with these operations is refused.
      uint64_t comp_mask[3];
      void* xrcd;  // read by no function that we call
    } tail;
  };
};

struct CqBase {
  union {
    ibv_cq cq;
    ibv_cq_ex ex;
  };
};

// An operation that we leave out: the library then answers EOPNOTSUPP.
using AbsentOp = void (*)();

// Sorted by name, like the library's.
struct ContextOps {
  AbsentOp advise_mr;
  AbsentOp alloc_dm;
  AbsentOp alloc_mw;
  AbsentOp alloc_null_mr;
  AbsentOp alloc_parent_domain;
  ibv_pd* (*alloc_pd)(ibv_context* context);
  AbsentOp alloc_td;
  void (*async_event)(ibv_context* context, ibv_async_event* event);
  AbsentOp attach_counters_point_flow;
  AbsentOp attach_mcast;
  AbsentOp bind_mw;
  AbsentOp close_xrcd;
  void (*cq_event)(ibv_cq* cq);
  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
  AbsentOp create_counters;
  ibv_cq* (*create_cq)(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context* context, ibv_cq_init_attr_ex* attr);
  AbsentOp create_flow;
  AbsentOp create_flow_action_esp;
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  ibv_qp* (*create_qp_ex)(ibv_context* context, ibv_qp_init_attr_ex* attr);
  AbsentOp create_rwq_ind_table;
  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
  AbsentOp create_srq_ex;
  AbsentOp create_wq;
  AbsentOp dealloc_mw;
  int (*dealloc_pd)(ibv_pd* pd);
  AbsentOp dealloc_td;
  int (*dereg_mr)(MrBase* mr);
  int (*destroy_ah)(ibv_ah* ah);
  AbsentOp destroy_counters;
  int (*destroy_cq)(ibv_cq* cq);
  AbsentOp destroy_flow;
  AbsentOp destroy_flow_action;
  int (*destroy_qp)(ibv_qp* qp);
  AbsentOp destroy_rwq_ind_table;
  int (*destroy_srq)(ibv_srq* srq);
  AbsentOp destroy_wq;
  AbsentOp detach_mcast;
  void (*free_context)(ibv_context* context);
  AbsentOp free_dm;
  AbsentOp get_srq_num;
  AbsentOp import_dm;
  AbsentOp import_mr;
  AbsentOp import_pd;
  AbsentOp modify_cq;
  AbsentOp modify_flow_action_esp;
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
  AbsentOp modify_qp_rate_limit;
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
  AbsentOp modify_wq;
  AbsentOp open_qp;
  AbsentOp open_xrcd;
  int (*poll_cq)(ibv_cq* cq, int num_entries, ibv_wc* wc);
  int (*post_recv)(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  int (*post_send)(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
  AbsentOp post_srq_ops;
  int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  int (*query_device_ex)(ibv_context* context, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attr, size_t attr_size);
  AbsentOp query_ece;
  int (*query_port)(ibv_context* context, uint8_t port_num, ibv_port_attr* attr);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
  AbsentOp query_qp_data_in_order;
  AbsentOp query_rt_values;
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);
  AbsentOp read_counters;
  AbsentOp reg_dm_mr;
  AbsentOp reg_dmabuf_mr;
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access);
  int (*req_notify_cq)(ibv_cq* cq, int solicited_only);
  int (*rereg_mr)(MrBase* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access);
  int (*resize_cq)(ibv_cq* cq, int cqe);
  AbsentOp set_ece;
  AbsentOp unimport_dm;
  AbsentOp unimport_mr;
  AbsentOp unimport_pd;
};

static_assert(sizeof(AbsentOp) == sizeof(void*));
static_assert(sizeof(ContextOps) == 76 * sizeof(void*));
static_assert(sizeof(std::atomic<int>) == sizeof(int));
static_assert(sizeof(MatchEntry) == 24);
static_assert(sizeof(DeviceOps) == 9 * sizeof(void*));
static_assert(offsetof(DeviceBase, device) == 0 && offsetof(MrBase, mr) == 0);
static_assert(offsetof(QpBase, tail.comp_mask) == kOldestQpExBytes);
static_assert(sizeof(ibv_qp_ex) <= sizeof(QpBase) - sizeof(void*));

}  // namespace verbena::rdma

// All exported by libibverbs with symbol version IBVERBS_PRIVATE_34.
extern "C" {
void verbs_register_driver_34(const verbena::rdma::DeviceOps* ops);
void verbs_set_ops(verbs_context* context, const verbena::rdma::ContextOps* ops);
// Takes over cmd_fd: closes it when it fails. `context_offset` is where the verbs_context lies in
// the allocation, as a pointer. The memory comes from calloc() and is the caller's to free().
void* _verbs_init_and_alloc_context(ibv_device* device, int cmd_fd, size_t alloc_size,
                                    verbs_context* context_offset, uint32_t driver_id);
// Closes cmd_fd and async_fd; does not free the memory.
void verbs_uninit_context(verbs_context* context);
}
