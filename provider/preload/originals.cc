#include "provider/preload/originals.h"

#include <dlfcn.h>

#include <atomic>

namespace verbena::preload {
namespace {

constexpr const char* kNames[kOriginalCount] = {
#define VERBENA_ORIGINAL_NAME(name, signature) #name,
    VERBENA_ORIGINALS(VERBENA_ORIGINAL_NAME)
#undef VERBENA_ORIGINAL_NAME
};

constinit std::atomic<void*> found[kOriginalCount] = {};

// RTLD_NEXT means "after the caller", which is told by the return address: dlsym's result is used
// here, so that the call cannot become a jump that looks like the program's own.
[[gnu::noinline, gnu::cold]] void* look_up(OriginalId id) {
  void* function = dlsym(RTLD_NEXT, kNames[id]);
  found[id].store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

void* find_original(OriginalId id) {
  void* function = found[id].load(std::memory_order_relaxed);
  return function != nullptr ? function : look_up(id);
}

void find_all_originals() {
  for (unsigned id = 0; id < kOriginalCount; ++id) look_up(static_cast<OriginalId>(id));
}

}  // namespace verbena::preload
