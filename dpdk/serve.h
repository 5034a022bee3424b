// serve(): the daemon itself, without the process around it. The calling thread becomes the polling
// thread.
#pragma once

#include <functional>

#include "dpdk/options.h"
#include "dpdk/run_dir.h"

namespace verbena {

// Calls `serving` when clients may connect, and returns when the daemon was told to end. Once in a
// process, because of DPDK. Throws std::exception when it cannot start.
void serve(const Options& options, InstanceDir& dir, const std::function<void()>& serving);

}  // namespace verbena
