// Completion queues: creation, resizing, the end. Polling is in verbs_data_poll.cc.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

// Maps the region of a new or resized ring after a look at its size. Closes fd in any case.
int map_ring(const abi::CqReply& reply, int fd, Mapping& mapping) {
  const uint64_t needed = abi::kCqEntriesOffset + uint64_t{reply.depth} * sizeof(abi::Cqe);
  if (reply.depth == 0 || (reply.depth & (reply.depth - 1)) != 0 || reply.region_bytes < needed) {
    close(fd);
    return EPROTO;
  }
  return map_region(fd, reply.region_bytes, PROT_READ | PROT_WRITE, mapping);
}

void adopt_ring(Cq& cq, const Mapping& mapping, uint32_t depth) {
  cq.mapping = mapping;
  cq.header = reinterpret_cast<abi::CqHeader*>(mapping.base);
  cq.entries = reinterpret_cast<abi::Cqe*>(mapping.base + abi::kCqEntriesOffset);
  cq.depth = depth;
  cq.base.cq.cqe = static_cast<int>(depth);
}

Cq* make_cq(ibv_context* ibv, uint32_t cqe, ibv_comp_channel* channel, uint32_t comp_vector) {
  Context& context = *to_context(ibv);
  if (comp_vector >= static_cast<uint32_t>(ibv->num_comp_vectors)) return fail(EINVAL);
  uint32_t channel_handle = 0;
  if (channel != nullptr) {
    channel_handle = context.channels.find(channel->fd);
    if (channel_handle == 0) {
      std::fprintf(stderr,
                   "verbena: completion channels need libverbena-preload.so in LD_PRELOAD; start "
                   "the program with `verbena run`\n");
      return fail(EINVAL);
    }
  }
  void* memory = std::calloc(1, sizeof(Cq));
  if (memory == nullptr) return fail(ENOMEM);
  auto* cq = new (memory) Cq();

  const abi::CreateCq body{reinterpret_cast<uint64_t>(cq), cqe, channel_handle};
  abi::CqReply reply;
  int fd;
  int error = call(context.control, abi::Op::kCreateCq, body, reply, &fd, 1);
  if (error == 0) {
    Mapping mapping;
    error = map_ring(reply, fd, mapping);
    if (error == 0) {
      adopt_ring(*cq, mapping, reply.depth);
    } else {
      abi::DestroyReply delivered;
      destroy_at_daemon(context, abi::Op::kDestroyCq, reply.handle, delivered, channel);
    }
  }
  if (error != 0) {
    cq->~Cq();
    std::free(cq);
    return fail(error);
  }
  cq->base.cq.handle = reply.handle;
  return cq;
}

// The man page of ibv_destroy_cq: all events that were delivered must have been acknowledged.
void wait_for_acks(ibv_cq& cq, const abi::DestroyReply& delivered) {
  pthread_mutex_lock(&cq.mutex);
  while (cq.comp_events_completed != delivered.comp_events ||
         cq.async_events_completed != delivered.async_events) {
    pthread_cond_wait(&cq.cond, &cq.mutex);
  }
  pthread_mutex_unlock(&cq.mutex);
}

}  // namespace

int destroy_at_daemon(Context& context, abi::Op op, uint32_t handle, abi::DestroyReply& delivered,
                      const ibv_comp_channel* channel) {
  const int fds[2] = {context.base.context.async_fd, channel != nullptr ? channel->fd : -1};
  const abi::Handle body{handle, 0};
  return context.control.call(op, {&body, sizeof body, fds, channel != nullptr ? 2 : 1},
                              {&delivered, sizeof delivered, nullptr, 0});
}

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector) {
  if (cqe < 1 || comp_vector < 0) return fail(EINVAL);
  Cq* cq =
      make_cq(context, static_cast<uint32_t>(cqe), channel, static_cast<uint32_t>(comp_vector));
  return cq != nullptr ? &cq->base.cq : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr uint32_t kKnownCreateFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  if ((attr->wc_flags & ~kSupportedWcFlags) != 0) return fail(EOPNOTSUPP);
  if ((attr->comp_mask & ~static_cast<uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS)) != 0) {
    return fail(EOPNOTSUPP);
  }
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      (attr->flags & ~kKnownCreateFlags) != 0) {
    return fail(EOPNOTSUPP);
  }
  if (attr->cqe < 1) return fail(EINVAL);
  Cq* cq = make_cq(context, attr->cqe, attr->channel, attr->comp_vector);
  if (cq == nullptr) return nullptr;
  set_poll_functions(*cq);
  return &cq->base.ex;
}

int resize_cq(ibv_cq* ibv, int cqe) {
  if (cqe < 1) return EINVAL;
  Cq& cq = *to_cq(ibv);
  Context& context = *to_context(ibv->context);
  const abi::ResizeCq body{ibv->handle, static_cast<uint32_t>(cqe)};
  abi::CqReply reply;
  int fd;
  // Held across the request: nobody may consume from the old ring once the daemon has moved on.
  SpinGuard guard(cq.lock);
  cq.header->consumer.store(cq.consumer, std::memory_order_release);
  int error = call(context.control, abi::Op::kResizeCq, body, reply, &fd, 1);
  if (error != 0) return error;
  Mapping mapping;
  error = map_ring(reply, fd, mapping);
  if (error != 0) return error;
  Mapping old = cq.mapping;
  adopt_ring(cq, mapping, reply.depth);
  cq.header->consumer.store(cq.consumer, std::memory_order_release);
  cq.header->arm.store(cq.arm, std::memory_order_seq_cst);
  unmap_region(old);
  return 0;
}

int destroy_cq(ibv_cq* ibv) {
  Cq* cq = to_cq(ibv);
  Context& context = *to_context(ibv->context);
  {
    SpinGuard guard(cq->lock);
    if (cq->qps.count() != 0) return EBUSY;
  }
  abi::DestroyReply delivered;
  const int error =
      destroy_at_daemon(context, abi::Op::kDestroyCq, ibv->handle, delivered, ibv->channel);
  if (error == 0) {
    wait_for_acks(*ibv, delivered);
  } else if (error != EIO) {
    return error;
  }
  if (context.control.ours()) unmap_region(cq->mapping);
  pthread_mutex_destroy(&ibv->mutex);
  pthread_cond_destroy(&ibv->cond);
  cq->~Cq();
  std::free(cq);
  return 0;
}

}  // namespace verbena::provider
