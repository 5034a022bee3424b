// Messages on the control socket (SOCK_SEQPACKET, one message per packet).
//
// A client sends a Request with the struct of its op behind it and gets exactly one Reply with the
// reply struct of that op behind it, in order. Errors are positive errno values in Reply::error;
// then no struct follows. File descriptors travel by SCM_RIGHTS, in the order given at each op. A
// message of the wrong size, an unknown op or a reserved field that is not zero ends the
// connection.
//
// One connection is one client: one opened device. When it closes, or the process that made it dies
// (pidfd), all that it owns is destroyed. Handles are valid on their own connection only.
#pragma once

#include <cstdint>

#include "stack/abi/version.h"

namespace verbena::abi {

enum class Op : uint32_t {
  kOpenDevice = 1,  // the first message of a provider
  kQueryPort,
  kAllocPd,
  kDeallocPd,
  kRegMr,
  kDeregMr,
  kReregMr,
  kCreateChannel,
  kCreateCq,
  kResizeCq,
  kDestroyCq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kDestroySrq,
  kCreateAh,
  kDestroyAh,
  kAdmin,  // the first message of a tool; needs no open device
};

inline constexpr uint32_t kMagic = 0x4E425256;  // "VRBN"
inline constexpr uint32_t kMaxMessage = 4096;   // bytes, Request or Reply with its struct

struct Request {
  uint32_t magic;  // kMagic
  uint32_t abi_version;
  Op op;
  uint32_t body_bytes;
};

struct Reply {
  uint32_t magic;
  uint32_t error;  // 0 or an errno
  Op op;
  uint32_t body_bytes;
};

struct Empty {};

// ---- kOpenDevice. fds in: [0] the client's own /proc/self/mem, read-write.
// fds out: [0] WorkerPage memfd (read-only), [1] DoorbellPage memfd, [2] async event socket,
// [3] kick, an eventfd: a number written to it wakes the daemon.
struct OpenDevice {
  char device_name[64];  // NUL-terminated
};
struct DeviceLimits {
  uint64_t node_guid;       // network order
  uint64_t sys_image_guid;  // network order
  uint64_t max_mr_size;
  uint32_t vendor_id;
  uint32_t vendor_part_id;
  uint32_t hw_ver;
  uint32_t max_qp;
  uint32_t max_qp_wr;
  uint32_t max_sge;
  uint32_t max_cq;
  uint32_t max_cqe;
  uint32_t max_mr;
  uint32_t max_pd;
  uint32_t max_qp_rd_atom;
  uint32_t max_qp_init_rd_atom;
  uint32_t max_inline_data;
  uint32_t max_ah;
  uint32_t max_pkeys;
  uint32_t gid_tbl_len;
  uint32_t max_srq;
  uint32_t max_srq_wr;
  uint32_t max_srq_sge;
  uint32_t reserved;
  char fw_ver[64];
};
struct OpenDeviceReply {
  DeviceLimits limits;
  uint32_t daemon_pid;
  uint32_t reserved;
};

// ---- kQueryPort: Empty in.
struct PortAttr {
  uint32_t state;  // enum ibv_port_state
  uint32_t phys_state;
  uint32_t max_mtu;  // PathMtu code
  uint32_t active_mtu;
  uint32_t gid_tbl_len;
  uint32_t pkey_tbl_len;
  uint32_t max_msg_sz;
  uint32_t active_speed;
  uint32_t active_width;
  uint32_t bad_pkey_cntr;
  uint32_t reserved[2];
};

// ---- kAllocPd: Empty in, Handle out. kDeallocPd: Handle in, Empty out.
struct Handle {
  uint32_t handle;
  uint32_t reserved;
};

// ---- kRegMr. Access bits are those of enum ibv_access_flags. The provider has checked that the
// pages are mapped with the needed protection.
struct RegMr {
  uint32_t pd;
  uint32_t access;
  uint64_t va;      // in the client's address space
  uint64_t length;  // bytes
  uint64_t iova;    // the address that work requests use
};
struct RegMrReply {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t reserved;
};
// ---- kDeregMr: Handle in, Empty out.
// ---- kReregMr: RegMrReply out. Flags are those of enum ibv_rereg_mr_flags.
struct ReregMr {
  uint32_t handle;
  uint32_t flags;
  RegMr mr;
};

// ---- kCreateChannel: Empty in, Handle out; fds out: [0] the read end. Each event is one 8-byte
// message: the CQ's user_handle. End of file: the daemon is gone.

// ---- kCreateCq. fds out: [0] region memfd.
struct CreateCq {
  uint64_t user_handle;  // returned in events
  uint32_t cqe;          // entries wanted, 1..max_cqe
  uint32_t channel;      // handle from kCreateChannel, 0 = none
};
struct CqReply {
  uint32_t handle;
  uint32_t depth;  // entries of the ring, a power of two
  uint64_t region_bytes;
};
// ---- kResizeCq: CqReply out, fds out: [0] new region. The client holds its CQ still, with its
// consumer index stored, from before the request until it has switched to the new region; entries
// that it has not consumed are in the new ring at the same indices. EINVAL if they do not fit.
struct ResizeCq {
  uint32_t handle;
  uint32_t cqe;
};

// ---- kDestroyCq, kDestroyQp. fds in: [0] the async event fd, then for a CQ with a channel
// [1] the channel fd. The daemon takes the object's undelivered events out of them; the counts say
// how many were delivered, which the application has yet to acknowledge before destroy may return.
struct DestroyReply {
  uint32_t comp_events;
  uint32_t async_events;
};

// ---- kCreateQp. fds out: [0] region memfd.
struct CreateQp {
  uint64_t user_handle;  // returned in async events
  uint32_t pd;
  uint32_t send_cq;
  uint32_t recv_cq;
  uint32_t srq;      // 0 = none
  uint32_t qp_type;  // enum ibv_qp_type
  uint32_t max_send_wr;
  uint32_t max_recv_wr;
  uint32_t max_send_sge;
  uint32_t max_recv_sge;
  uint32_t max_inline_data;
  uint32_t sq_sig_all;
  uint32_t reserved;
};
struct QpLayout {
  uint32_t handle;
  uint32_t qpn;
  uint32_t doorbell_slot;
  uint32_t sq_depth;   // entries of the ring, a power of two, at least max_send_wr
  uint32_t sq_stride;  // bytes
  uint32_t rq_depth;
  uint32_t rq_stride;
  uint32_t max_inline_data;  // granted limits
  uint32_t max_send_wr;
  uint32_t max_recv_wr;
  uint32_t max_send_sge;
  uint32_t max_recv_sge;
  uint64_t sq_offset;
  uint64_t rq_offset;
  uint64_t region_bytes;
};

// ---- kModifyQp: Empty out. kQueryQp: Handle in, QpAttr out. attr_mask has the bits of
// enum ibv_qp_attr_mask; fields have the meaning and coding of struct ibv_qp_attr.
struct QpAttr {
  uint32_t qp_state;
  uint32_t cur_qp_state;
  uint32_t path_mtu;
  uint32_t path_mig_state;
  uint32_t qkey;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint32_t dest_qp_num;
  uint32_t qp_access_flags;
  uint32_t pkey_index;
  uint32_t port_num;
  uint32_t max_rd_atomic;
  uint32_t max_dest_rd_atomic;
  uint32_t min_rnr_timer;
  uint32_t timeout;
  uint32_t retry_cnt;
  uint32_t rnr_retry;
  uint32_t sq_draining;
  uint32_t en_sqd_async_notify;
  // Address vector
  uint32_t ah_is_global;
  uint32_t ah_sgid_index;
  uint32_t ah_hop_limit;
  uint32_t ah_traffic_class;
  uint32_t ah_flow_label;
  uint32_t ah_sl;
  uint32_t ah_port_num;
  uint32_t ah_dlid;
  uint32_t ah_static_rate;
  uint8_t ah_dgid[16];
};
struct ModifyQp {
  uint32_t handle;
  uint32_t attr_mask;
  QpAttr attr;
};

// ---- kCreateSrq. fds out: [0] region memfd. See SrqHeader in ring.h for the ring.
struct CreateSrq {
  uint64_t user_handle;  // returned in async events
  uint32_t pd;
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t srq_limit;
};
struct SrqLayout {
  uint32_t handle;
  uint32_t depth;   // slots, and entries of the index ring: a power of two, at least max_wr
  uint32_t stride;  // bytes of a slot
  uint32_t max_wr;  // granted limits
  uint32_t max_sge;
  uint32_t reserved;
  uint64_t index_offset;  // of the index ring, u32 entries
  uint64_t slots_offset;
  uint64_t region_bytes;
};
// ---- kModifySrq: Empty out. kQuerySrq: Handle in, SrqAttr out. attr_mask has the bits of
// enum ibv_srq_attr_mask; resizing (IBV_SRQ_MAX_WR) is EOPNOTSUPP.
struct SrqAttr {
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t srq_limit;
  uint32_t reserved;
};
struct ModifySrq {
  uint32_t handle;
  uint32_t attr_mask;
  SrqAttr attr;
};
// ---- kDestroySrq: as kDestroyQp (Handle and async fd in, DestroyReply out); EBUSY while queue
// pairs use it.

// ---- kCreateAh: Handle out. kDestroyAh: Handle in, Empty out. EHOSTUNREACH as kModifyQp.
struct CreateAh {
  uint32_t pd;
  uint32_t is_global;
  uint32_t sgid_index;
  uint32_t hop_limit;
  uint32_t traffic_class;
  uint32_t flow_label;
  uint32_t sl;
  uint32_t port_num;
  uint8_t dgid[16];
};

// ---- Async event, one 16-byte message on the async socket (the layout libibverbs reads).
struct AsyncEvent {
  uint64_t element;     // user_handle of the CQ or QP, or the port number
  uint32_t event_type;  // enum ibv_event_type
  uint32_t reserved;
};

// ---- kAdmin: a line of text (words separated by spaces; the last may contain any) in, no body
// out; fds out: [0] a memfd with the JSON answer. {"error": "..."} when the words are wrong.
//   status | stat | fault wire RULE | fault show | fault clear [SELECTOR]
//   | capture start FILE | capture stop | shutdown
struct AdminText {
  char text[kMaxMessage - sizeof(Request)];  // body_bytes of it, no NUL needed
};

static_assert(sizeof(Request) == 16 && sizeof(Reply) == 16);
static_assert(sizeof(QpAttr) == 28 * 4 + 16);
static_assert(sizeof(CreateQp) == 56 && sizeof(QpLayout) == 72);
static_assert(sizeof(CreateSrq) == 24 && sizeof(SrqLayout) == 48 && sizeof(CreateAh) == 48);
static_assert(sizeof(RegMr) == 32 && sizeof(ReregMr) == 40);
static_assert(sizeof(DeviceLimits) == 8 * 3 + 4 * 20 + 64);
static_assert(sizeof(ModifyQp) == 8 + sizeof(QpAttr));

}  // namespace verbena::abi
