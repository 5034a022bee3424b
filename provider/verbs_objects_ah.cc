// Address handles: where a UD work request goes. The daemon keeps the address; a work request names
// it by its handle.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "provider/provider.h"

namespace verbena::provider {

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  // RoCE has no other addresses than GIDs (the GRH is required, Annex A17).
  if (attr->is_global == 0) return fail(EINVAL);
  void* memory = std::calloc(1, sizeof(Ah));
  if (memory == nullptr) return fail(ENOMEM);
  auto* ah = new (memory) Ah();
  abi::CreateAh body{};
  body.pd = pd->handle;
  body.is_global = 1;
  body.sgid_index = attr->grh.sgid_index;
  body.hop_limit = attr->grh.hop_limit;
  body.traffic_class = attr->grh.traffic_class;
  body.flow_label = attr->grh.flow_label;
  body.sl = attr->sl;
  body.port_num = attr->port_num;
  std::memcpy(body.dgid, attr->grh.dgid.raw, sizeof body.dgid);
  abi::Handle reply;
  const int error = call(to_context(pd->context)->control, abi::Op::kCreateAh, body, reply);
  if (error != 0) {
    std::free(ah);
    return fail(error);
  }
  ah->ah.handle = reply.handle;
  return &ah->ah;
}

int destroy_ah(ibv_ah* ah) {
  abi::Empty none;
  const int error =
      call(to_context(ah->context)->control, abi::Op::kDestroyAh, abi::Handle{ah->handle, 0}, none);
  if (error != 0 && error != EIO) return error;
  std::free(ah);
  return 0;
}

}  // namespace verbena::provider
