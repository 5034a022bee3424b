// Queue pairs: creation, state, attributes, the end. Posting is in verbs_data_post.cc and
// verbs_data_wr.cc.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

// ---- Layout of the rings ----

bool ring_fits(uint64_t offset, uint32_t depth, uint32_t stride, uint32_t max_wr,
               uint64_t entry_bytes, uint64_t region_bytes) {
  return depth != 0 && (depth & (depth - 1)) == 0 && depth >= max_wr && stride >= entry_bytes &&
         offset >= abi::kQpRingsOffset && offset % 16 == 0 && stride % 16 == 0 &&
         offset <= region_bytes && uint64_t{depth} * stride <= region_bytes - offset;
}

bool layout_is_sound(const abi::QpLayout& layout, bool has_rq) {
  const uint64_t sges = uint64_t{layout.max_send_sge} * sizeof(abi::Sge);
  const uint64_t payload = sges > layout.max_inline_data ? sges : layout.max_inline_data;
  return layout.doorbell_slot < abi::DoorbellPage::kSlots &&
         ring_fits(layout.sq_offset, layout.sq_depth, layout.sq_stride, layout.max_send_wr,
                   sizeof(abi::SendWqe) + payload, layout.region_bytes) &&
         (!has_rq ||
          ring_fits(layout.rq_offset, layout.rq_depth, layout.rq_stride, layout.max_recv_wr,
                    sizeof(abi::RecvWqe) + uint64_t{layout.max_recv_sge} * sizeof(abi::Sge),
                    layout.region_bytes));
}

int adopt_queue(WorkQueue& queue, uint8_t* ring, uint32_t depth, uint32_t stride, uint32_t max_wr,
                uint32_t max_sge) {
  queue.ring = ring;
  queue.mask = depth - 1;
  queue.stride = stride;
  queue.max_wr = max_wr;
  queue.max_sge = max_sge;
  void* memory = std::calloc(depth, sizeof *queue.wr_ids);
  queue.wr_ids = static_cast<std::atomic<uint64_t>*>(memory);
  return memory != nullptr ? 0 : ENOMEM;
}

int adopt_layout(Qp& qp, const abi::QpLayout& layout, int fd) {
  if (!layout_is_sound(layout, qp.srq == nullptr)) {
    close(fd);
    return EPROTO;
  }
  const int error = map_region(fd, layout.region_bytes, PROT_READ | PROT_WRITE, qp.mapping);
  if (error != 0) return error;
  uint8_t* base = qp.mapping.base;
  qp.header = reinterpret_cast<abi::QpHeader*>(base);
  qp.doorbell_slot = layout.doorbell_slot;
  qp.max_inline = layout.max_inline_data;
  const int sq_error = adopt_queue(qp.sq, base + layout.sq_offset, layout.sq_depth,
                                   layout.sq_stride, layout.max_send_wr, layout.max_send_sge);
  if (qp.srq != nullptr || sq_error != 0) return sq_error;
  return adopt_queue(qp.rq, base + layout.rq_offset, layout.rq_depth, layout.rq_stride,
                     layout.max_recv_wr, layout.max_recv_sge);
}

// ---- Making and ending ----

void discard(Qp* qp) {
  if (qp->context->control.ours()) unmap_region(qp->mapping);
  std::free(qp->sq.wr_ids);
  std::free(qp->rq.wr_ids);
  qp->~Qp();
  std::free(qp);
}

bool enter_cq(ibv_cq* cq, Qp* qp) {
  SpinGuard guard(to_cq(cq)->lock);
  return to_cq(cq)->qps.insert(qp->base.qp.qp_num, qp);
}

// In a forked child the rings are not mapped; there is nothing to discard then.
void leave_cq(ibv_cq* cq, Qp* qp) {
  SpinGuard guard(to_cq(cq)->lock);
  if (qp->context->control.ours()) purge_cq(*to_cq(cq), *qp);
  to_cq(cq)->qps.remove(qp->base.qp.qp_num, qp);
}

void leave_cqs(Qp* qp) {
  leave_cq(qp->base.qp.send_cq, qp);
  if (qp->base.qp.recv_cq != qp->base.qp.send_cq) leave_cq(qp->base.qp.recv_cq, qp);
}

void fill_public(ibv_qp& qp, const ibv_pd& pd, const ibv_qp_init_attr& attr) {
  qp.context = pd.context;
  qp.qp_context = attr.qp_context;
  qp.pd = const_cast<ibv_pd*>(&pd);
  qp.send_cq = attr.send_cq;
  qp.recv_cq = attr.recv_cq;
  qp.srq = attr.srq;
  qp.qp_type = attr.qp_type;
  qp.state = IBV_QPS_RESET;
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
}

abi::CreateQp request_for(const Qp* qp, const ibv_pd& pd, const ibv_qp_init_attr& attr) {
  abi::CreateQp body{};
  body.user_handle = reinterpret_cast<uint64_t>(qp);
  body.pd = pd.handle;
  body.send_cq = attr.send_cq->handle;
  body.recv_cq = attr.recv_cq->handle;
  body.srq = attr.srq != nullptr ? attr.srq->handle : 0;
  body.qp_type = static_cast<uint32_t>(attr.qp_type);
  body.max_send_wr = attr.cap.max_send_wr;
  body.max_recv_wr = attr.cap.max_recv_wr;
  body.max_send_sge = attr.cap.max_send_sge;
  body.max_recv_sge = attr.cap.max_recv_sge;
  body.max_inline_data = attr.cap.max_inline_data;
  body.sq_sig_all = attr.sq_sig_all != 0;
  return body;
}

int create_at_daemon(Qp* qp, const abi::CreateQp& body) {
  abi::QpLayout layout;
  int fd;
  int error = call(qp->context->control, abi::Op::kCreateQp, body, layout, &fd, 1);
  if (error != 0) return error;
  qp->base.qp.handle = layout.handle;
  qp->base.qp.qp_num = layout.qpn;
  error = adopt_layout(*qp, layout, fd);
  if (error == 0 && (!enter_cq(qp->base.qp.send_cq, qp) || !enter_cq(qp->base.qp.recv_cq, qp))) {
    error = ENOMEM;
  }
  if (error != 0) {
    leave_cqs(qp);
    abi::DestroyReply delivered;
    destroy_at_daemon(*qp->context, abi::Op::kDestroyQp, layout.handle, delivered);
  }
  return error;
}

void caps_of(const Qp& qp, ibv_qp_cap& cap) {
  cap.max_send_wr = qp.sq.max_wr;
  cap.max_recv_wr = qp.rq.max_wr;
  cap.max_send_sge = qp.sq.max_sge;
  cap.max_recv_sge = qp.rq.max_sge;
  cap.max_inline_data = qp.max_inline;
}

Qp* make_qp(ibv_pd* pd, const ibv_qp_init_attr& attr) {
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UD) return fail(EOPNOTSUPP);
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return fail(EINVAL);
  if (attr.srq != nullptr && attr.srq->context != pd->context) return fail(EINVAL);
  void* memory = std::calloc(1, sizeof(Qp));
  if (memory == nullptr) return fail(ENOMEM);
  auto* qp = new (memory) Qp();
  qp->context = to_context(pd->context);
  qp->sq_sig_all = attr.sq_sig_all != 0;
  qp->srq = attr.srq != nullptr ? to_srq(attr.srq) : nullptr;
  fill_public(qp->base.qp, *pd, attr);
  const abi::CreateQp body = request_for(qp, *pd, attr);
  int error;
  {
    MutexGuard guard(qp->context->qp_mutex);
    error = create_at_daemon(qp, body);
    if (error == 0 && qp->srq != nullptr) ++qp->srq->users;
  }
  if (error != 0) {
    discard(qp);
    return fail(error);
  }
  return qp;
}

// The man page of ibv_destroy_qp: all events that were delivered must have been acknowledged.
void wait_for_acks(ibv_qp& qp, uint32_t delivered) {
  pthread_mutex_lock(&qp.mutex);
  while (qp.events_completed != delivered) pthread_cond_wait(&qp.cond, &qp.mutex);
  pthread_mutex_unlock(&qp.mutex);
}

// ---- Attributes ----

void put_address(const ibv_ah_attr& ah, abi::QpAttr& out) {
  out.ah_is_global = ah.is_global;
  out.ah_sgid_index = ah.grh.sgid_index;
  out.ah_hop_limit = ah.grh.hop_limit;
  out.ah_traffic_class = ah.grh.traffic_class;
  out.ah_flow_label = ah.grh.flow_label;
  out.ah_sl = ah.sl;
  out.ah_port_num = ah.port_num;
  out.ah_dlid = ah.dlid;
  out.ah_static_rate = ah.static_rate;
  std::memcpy(out.ah_dgid, ah.grh.dgid.raw, sizeof out.ah_dgid);
}

void take_address(const abi::QpAttr& in, ibv_ah_attr& ah) {
  ah.is_global = static_cast<uint8_t>(in.ah_is_global);
  ah.grh.sgid_index = static_cast<uint8_t>(in.ah_sgid_index);
  ah.grh.hop_limit = static_cast<uint8_t>(in.ah_hop_limit);
  ah.grh.traffic_class = static_cast<uint8_t>(in.ah_traffic_class);
  ah.grh.flow_label = in.ah_flow_label;
  ah.sl = static_cast<uint8_t>(in.ah_sl);
  ah.port_num = static_cast<uint8_t>(in.ah_port_num);
  ah.dlid = static_cast<uint16_t>(in.ah_dlid);
  ah.static_rate = static_cast<uint8_t>(in.ah_static_rate);
  std::memcpy(ah.grh.dgid.raw, in.ah_dgid, sizeof in.ah_dgid);
}

// Fields outside the mask may be uninitialised in the application's struct: they stay zero here.
abi::QpAttr request_attr(const ibv_qp_attr& attr, int mask) {
  abi::QpAttr out{};
  if (mask & IBV_QP_STATE) out.qp_state = static_cast<uint32_t>(attr.qp_state);
  if (mask & IBV_QP_CUR_STATE) out.cur_qp_state = static_cast<uint32_t>(attr.cur_qp_state);
  if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) out.en_sqd_async_notify = attr.en_sqd_async_notify;
  if (mask & IBV_QP_ACCESS_FLAGS) out.qp_access_flags = attr.qp_access_flags;
  if (mask & IBV_QP_PKEY_INDEX) out.pkey_index = attr.pkey_index;
  if (mask & IBV_QP_PORT) out.port_num = attr.port_num;
  if (mask & IBV_QP_QKEY) out.qkey = attr.qkey;
  if (mask & IBV_QP_AV) put_address(attr.ah_attr, out);
  if (mask & IBV_QP_PATH_MTU) out.path_mtu = static_cast<uint32_t>(attr.path_mtu);
  if (mask & IBV_QP_TIMEOUT) out.timeout = attr.timeout;
  if (mask & IBV_QP_RETRY_CNT) out.retry_cnt = attr.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) out.rnr_retry = attr.rnr_retry;
  if (mask & IBV_QP_RQ_PSN) out.rq_psn = attr.rq_psn;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) out.max_rd_atomic = attr.max_rd_atomic;
  if (mask & IBV_QP_MIN_RNR_TIMER) out.min_rnr_timer = attr.min_rnr_timer;
  if (mask & IBV_QP_SQ_PSN) out.sq_psn = attr.sq_psn;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (mask & IBV_QP_PATH_MIG_STATE) {
    out.path_mig_state = static_cast<uint32_t>(attr.path_mig_state);
  }
  if (mask & IBV_QP_DEST_QPN) out.dest_qp_num = attr.dest_qp_num;
  return out;
}

void answer_attr(const abi::QpAttr& in, ibv_qp_attr& attr) {
  attr.qp_state = static_cast<ibv_qp_state>(in.qp_state);
  attr.cur_qp_state = static_cast<ibv_qp_state>(in.cur_qp_state);
  attr.path_mtu = static_cast<ibv_mtu>(in.path_mtu);
  attr.path_mig_state = static_cast<ibv_mig_state>(in.path_mig_state);
  attr.qkey = in.qkey;
  attr.rq_psn = in.rq_psn;
  attr.sq_psn = in.sq_psn;
  attr.dest_qp_num = in.dest_qp_num;
  attr.qp_access_flags = in.qp_access_flags;
  take_address(in, attr.ah_attr);
  attr.pkey_index = static_cast<uint16_t>(in.pkey_index);
  attr.en_sqd_async_notify = static_cast<uint8_t>(in.en_sqd_async_notify);
  attr.sq_draining = static_cast<uint8_t>(in.sq_draining);
  attr.max_rd_atomic = static_cast<uint8_t>(in.max_rd_atomic);
  attr.max_dest_rd_atomic = static_cast<uint8_t>(in.max_dest_rd_atomic);
  attr.min_rnr_timer = static_cast<uint8_t>(in.min_rnr_timer);
  attr.port_num = static_cast<uint8_t>(in.port_num);
  attr.timeout = static_cast<uint8_t>(in.timeout);
  attr.retry_cnt = static_cast<uint8_t>(in.retry_cnt);
  attr.rnr_retry = static_cast<uint8_t>(in.rnr_retry);
}

// Sets the posting gate under both queues' locks, so that no posting is under way afterwards.
void set_state(Qp& qp, uint32_t state) {
  SpinGuard sq_guard(qp.sq.lock);
  SpinGuard rq_guard(qp.rq.lock);
  qp.state.store(state, std::memory_order_relaxed);
}

// In RESET both sides restart at index 0 and completions of before are discarded. A queue's indices
// change under the lock of its completion queue, since a poller may flush by them.
void restart_rings(Qp& qp) {
  for (ibv_cq* cq : {qp.base.qp.send_cq, qp.base.qp.recv_cq}) {
    SpinGuard guard(to_cq(cq)->lock);
    purge_cq(*to_cq(cq), qp);
    for (WorkQueue* queue : {&qp.sq, &qp.rq}) {
      if (cq != (queue == &qp.sq ? qp.base.qp.send_cq : qp.base.qp.recv_cq)) continue;
      queue->retired.store(0, std::memory_order_release);
      queue->tail.store(0, std::memory_order_release);
    }
  }
  qp.header->sq_tail.store(0, std::memory_order_release);
  qp.header->rq_tail.store(0, std::memory_order_release);
}

int modify_at_daemon(Qp& qp, const ibv_qp_attr& attr, int mask) {
  abi::ModifyQp body{};
  body.handle = qp.base.qp.handle;
  body.attr_mask = static_cast<uint32_t>(mask);
  body.attr = request_attr(attr, mask);
  abi::Empty none;
  return call(qp.context->control, abi::Op::kModifyQp, body, none);
}

int reset_qp(Qp& qp, const ibv_qp_attr& attr, int mask) {
  MutexGuard guard(qp.context->qp_mutex);
  const uint32_t before = qp.state.load(std::memory_order_relaxed);
  set_state(qp, IBV_QPS_RESET);
  const int error = modify_at_daemon(qp, attr, mask);
  if (error != 0) {
    set_state(qp, before);
    return error;
  }
  restart_rings(qp);
  return 0;
}

}  // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  Qp* qp = make_qp(pd, *attr);
  if (qp == nullptr) return nullptr;
  caps_of(*qp, attr->cap);
  return &qp->base.qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const uint32_t mask = attr->comp_mask;
  if ((mask & ~kKnown) != 0) return fail(EOPNOTSUPP);
  if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) {
    return fail(EOPNOTSUPP);
  }
  if ((mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd->context != context) return fail(EINVAL);
  const bool extended = (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const uint64_t supported = attr->qp_type == IBV_QPT_UD ? kSupportedUdSendOps : kSupportedSendOps;
  if (extended && (attr->send_ops_flags & ~supported) != 0) return fail(EOPNOTSUPP);

  // The public header lays the two structs out alike up to sq_sig_all.
  ibv_qp_init_attr plain{attr->qp_context, attr->send_cq, attr->recv_cq,   attr->srq,
                         attr->cap,        attr->qp_type, attr->sq_sig_all};
  Qp* qp = make_qp(attr->pd, plain);
  if (qp == nullptr) return nullptr;
  caps_of(*qp, attr->cap);
  if (extended) set_wr_functions(*qp, attr->send_ops_flags);
  return &qp->base.qp;
}

int modify_qp(ibv_qp* ibv, ibv_qp_attr* attr, int mask) {
  Qp& qp = *to_qp(ibv);
  const bool moves = (mask & IBV_QP_STATE) != 0;
  if (moves && attr->qp_state == IBV_QPS_RESET) return reset_qp(qp, *attr, mask);
  const int error = modify_at_daemon(qp, *attr, mask);
  if (error == 0 && moves) set_state(qp, static_cast<uint32_t>(attr->qp_state));
  return error;
}

int query_qp(ibv_qp* ibv, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  Qp& qp = *to_qp(ibv);
  abi::QpAttr reply;
  const int error =
      call(qp.context->control, abi::Op::kQueryQp, abi::Handle{ibv->handle, 0}, reply);
  if (error != 0) return error;
  *attr = {};
  answer_attr(reply, *attr);
  caps_of(qp, attr->cap);
  *init_attr = {};
  init_attr->qp_context = ibv->qp_context;
  init_attr->send_cq = ibv->send_cq;
  init_attr->recv_cq = ibv->recv_cq;
  init_attr->srq = ibv->srq;
  init_attr->cap = attr->cap;
  init_attr->qp_type = ibv->qp_type;
  init_attr->sq_sig_all = qp.sq_sig_all;
  return 0;
}

int destroy_qp(ibv_qp* ibv) {
  Qp* qp = to_qp(ibv);
  abi::DestroyReply delivered{};
  int error;
  {
    MutexGuard guard(qp->context->qp_mutex);
    error = destroy_at_daemon(*qp->context, abi::Op::kDestroyQp, ibv->handle, delivered);
    if (error != 0 && error != EIO) return error;
    leave_cqs(qp);
    if (qp->srq != nullptr) --qp->srq->users;
  }
  if (error == 0) wait_for_acks(*ibv, delivered.async_events);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  discard(qp);
  return 0;
}

}  // namespace verbena::provider
