// The path MTU of a connection, as far as its packets tell.
#pragma once

#include "tools/trace/conversation.h"

namespace verbena::trace {

// Fills in `path_mtu` and `path_mtu_known`.
void find_path_mtu(const Trace& trace, Connection& connection);

// PSNs that a READ of `length` bytes takes: one for each response, at least one (RC-PSN-3).
constexpr uint32_t read_psn_count(uint32_t length, uint32_t path_mtu) {
  if (length == 0 || path_mtu == 0) return 1;
  return (length - 1) / path_mtu + 1;
}

}  // namespace verbena::trace
