// Protection domains and memory regions.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "provider/provider.h"

namespace verbena::provider {

namespace {

constexpr uint32_t kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kWritable = IBV_ACCESS_LOCAL_WRITE | kNeedLocalWrite;
constexpr uint32_t kSupportedAccess = kWritable | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
constexpr uint32_t kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

// The rules of the kernel's ib_check_mr_access(). Optional flags (relaxed ordering) are hints.
int check_access(uint32_t access) {
  if ((access & ~(kSupportedAccess | kOptionalAccess)) != 0) return EOPNOTSUPP;
  if ((access & kNeedLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  return 0;
}

int check_range(uint64_t va, uint64_t length, uint64_t iova, uint32_t access) {
  const uint64_t page_mask = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) - 1;
  if (length == 0 || va + length < va || iova + length < iova) return EINVAL;
  if ((va & page_mask) != (iova & page_mask)) return EINVAL;
  return check_mapped(va, length, (access & kWritable) != 0);
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) {
  auto* pd = static_cast<Pd*>(std::calloc(1, sizeof(Pd)));
  if (pd == nullptr) return fail(ENOMEM);
  abi::Handle reply;
  const int error = call(to_context(context)->control, abi::Op::kAllocPd, abi::Empty{}, reply);
  if (error != 0) {
    std::free(pd);
    return fail(error);
  }
  pd->pd.handle = reply.handle;
  return &pd->pd;
}

int dealloc_pd(ibv_pd* pd) {
  ControlClient& control = to_context(pd->context)->control;
  abi::Empty none;
  const int error = call(control, abi::Op::kDeallocPd, abi::Handle{pd->handle, 0}, none);
  if (error != 0 && error != EIO) return error;
  std::free(pd);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access_flags) {
  const auto access = static_cast<uint32_t>(access_flags);
  const auto va = reinterpret_cast<uint64_t>(addr);
  int error = check_access(access);
  if (error == 0) error = check_range(va, length, iova, access);
  if (error != 0) return fail(error);

  void* memory = std::calloc(1, sizeof(Mr));
  if (memory == nullptr) return fail(ENOMEM);
  auto* mr = new (memory) Mr();
  abi::RegMrReply reply;
  const abi::RegMr body{pd->handle, access & kSupportedAccess, va, length, iova};
  error = call(to_context(pd->context)->control, abi::Op::kRegMr, body, reply);
  if (error != 0) {
    std::free(mr);
    return fail(error);
  }
  mr->base.mr.handle = reply.handle;
  mr->base.mr.lkey = reply.lkey;
  mr->base.mr.rkey = reply.rkey;
  mr->base.type = rdma::kMrTypeMr;
  mr->base.access = access_flags;
  mr->iova = iova;
  return &mr->base.mr;
}

int dereg_mr(rdma::MrBase* mr) {
  ControlClient& control = to_context(mr->mr.context)->control;
  abi::Empty none;
  const int error = call(control, abi::Op::kDeregMr, abi::Handle{mr->mr.handle, 0}, none);
  if (error != 0 && error != EIO) return error;
  std::free(mr);
  return 0;
}

int rereg_mr(rdma::MrBase* base, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  Mr* mr = to_mr(base);
  abi::ReregMr body{};
  body.handle = base->mr.handle;
  body.flags = static_cast<uint32_t>(flags);
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  body.mr.pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd->handle : base->mr.pd->handle;
  const auto new_access = static_cast<uint32_t>(changes_access ? access : base->access);
  body.mr.access = new_access & kSupportedAccess;
  body.mr.va = reinterpret_cast<uint64_t>(moves ? addr : base->mr.addr);
  body.mr.length = moves ? length : base->mr.length;
  body.mr.iova = moves ? body.mr.va : mr->iova;

  int error = check_access(new_access);
  if (error == 0 && (moves || changes_access)) {
    error = check_range(body.mr.va, body.mr.length, body.mr.iova, new_access);
  }
  abi::RegMrReply reply;
  if (error == 0) {
    error = call(to_context(base->mr.context)->control, abi::Op::kReregMr, body, reply);
  }
  if (error != 0) {
    errno = error;
    return error;
  }
  base->mr.handle = reply.handle;
  base->mr.lkey = reply.lkey;
  base->mr.rkey = reply.rkey;
  base->access = static_cast<int>(new_access);
  mr->iova = body.mr.iova;
  return 0;
}

}  // namespace verbena::provider
