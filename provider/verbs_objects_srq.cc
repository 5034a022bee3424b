// Shared receive queues: creation, attributes, the end. Posting is in verbs_data_srq.cc.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

bool layout_is_sound(const abi::SrqLayout& layout) {
  const uint64_t depth = layout.depth;
  const uint64_t entry_bytes = sizeof(abi::RecvWqe) + uint64_t{layout.max_sge} * sizeof(abi::Sge);
  const uint64_t region = layout.region_bytes;
  return depth != 0 && (depth & (depth - 1)) == 0 && layout.max_wr != 0 && layout.max_wr <= depth &&
         layout.stride >= entry_bytes && layout.stride % 16 == 0 &&
         layout.index_offset >= abi::kSrqIndexOffset && layout.index_offset % 4 == 0 &&
         layout.index_offset <= region &&
         depth * sizeof(uint32_t) <= region - layout.index_offset &&
         layout.slots_offset >= layout.index_offset + depth * sizeof(uint32_t) &&
         layout.slots_offset % 16 == 0 && layout.slots_offset <= region &&
         depth * layout.stride <= region - layout.slots_offset;
}

// Maps the region and closes fd, in any case.
int adopt_layout(Srq& srq, const abi::SrqLayout& layout, int fd) {
  if (!layout_is_sound(layout)) {
    close(fd);
    return EPROTO;
  }
  const int error = map_region(fd, layout.region_bytes, PROT_READ | PROT_WRITE, srq.mapping);
  if (error != 0) return error;
  uint8_t* base = srq.mapping.base;
  srq.header = reinterpret_cast<abi::SrqHeader*>(base);
  srq.index = reinterpret_cast<std::atomic<uint32_t>*>(base + layout.index_offset);
  srq.slots = base + layout.slots_offset;
  srq.mask = layout.depth - 1;
  srq.stride = layout.stride;
  srq.max_wr = layout.max_wr;
  srq.max_sge = layout.max_sge;
  srq.slot_table = static_cast<Srq::Slot*>(std::calloc(layout.max_wr, sizeof(Srq::Slot)));
  if (srq.slot_table == nullptr) return ENOMEM;
  for (uint32_t i = 0; i < layout.max_wr; ++i) srq.slot_table[i].next = i + 1;
  srq.slot_table[layout.max_wr - 1].next = Srq::kLast;
  return 0;
}

int create_at_daemon(Context& context, Srq& srq, const abi::CreateSrq& body) {
  abi::SrqLayout layout;
  int fd;
  int error = call(context.control, abi::Op::kCreateSrq, body, layout, &fd, 1);
  if (error != 0) return error;
  srq.srq.handle = layout.handle;
  error = adopt_layout(srq, layout, fd);
  if (error != 0) {
    abi::DestroyReply delivered;
    destroy_at_daemon(context, abi::Op::kDestroySrq, layout.handle, delivered);
  }
  return error;
}

void discard(Context& context, Srq* srq) {
  if (context.control.ours()) unmap_region(srq->mapping);
  std::free(srq->slot_table);
  srq->~Srq();
  std::free(srq);
}

// The man page of ibv_destroy_srq: all events that were delivered must have been acknowledged.
void wait_for_acks(ibv_srq& srq, uint32_t delivered) {
  pthread_mutex_lock(&srq.mutex);
  while (srq.events_completed != delivered) pthread_cond_wait(&srq.cond, &srq.mutex);
  pthread_mutex_unlock(&srq.mutex);
}

}  // namespace

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  Context& context = *to_context(pd->context);
  void* memory = std::calloc(1, sizeof(Srq));
  if (memory == nullptr) return fail(ENOMEM);
  auto* srq = new (memory) Srq();
  // srq_limit means nothing at creation (the man page), and may be uninitialised.
  const abi::CreateSrq body{reinterpret_cast<uint64_t>(srq), pd->handle, attr->attr.max_wr,
                            attr->attr.max_sge, 0};
  const int error = create_at_daemon(context, *srq, body);
  if (error != 0) {
    discard(context, srq);
    return fail(error);
  }
  attr->attr.max_wr = srq->max_wr;
  attr->attr.max_sge = srq->max_sge;
  return &srq->srq;
}

int modify_srq(ibv_srq* ibv, ibv_srq_attr* attr, int attr_mask) {
  abi::ModifySrq body{};
  body.handle = ibv->handle;
  body.attr_mask = static_cast<uint32_t>(attr_mask);
  // Fields outside the mask may be uninitialised in the application's struct: they stay zero here.
  if (attr_mask & IBV_SRQ_MAX_WR) body.attr.max_wr = attr->max_wr;
  if (attr_mask & IBV_SRQ_LIMIT) body.attr.srq_limit = attr->srq_limit;
  abi::Empty none;
  return call(to_context(ibv->context)->control, abi::Op::kModifySrq, body, none);
}

int query_srq(ibv_srq* ibv, ibv_srq_attr* attr) {
  abi::SrqAttr reply;
  const int error = call(to_context(ibv->context)->control, abi::Op::kQuerySrq,
                         abi::Handle{ibv->handle, 0}, reply);
  if (error != 0) return error;
  *attr = {reply.max_wr, reply.max_sge, reply.srq_limit};
  return 0;
}

int destroy_srq(ibv_srq* ibv) {
  Srq* srq = to_srq(ibv);
  Context& context = *to_context(ibv->context);
  {
    MutexGuard guard(context.qp_mutex);
    if (srq->users != 0) return EBUSY;
  }
  abi::DestroyReply delivered;
  const int error = destroy_at_daemon(context, abi::Op::kDestroySrq, ibv->handle, delivered);
  if (error == 0) {
    wait_for_acks(*ibv, delivered.async_events);
  } else if (error != EIO) {
    return error;
  }
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  discard(context, srq);
  return 0;
}

}  // namespace verbena::provider
