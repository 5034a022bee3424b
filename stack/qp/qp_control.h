// Modify, query and reset of a queue pair (IBTA vol. 1 ch. 11.2.5).
#pragma once

#include "stack/abi/control.h"
#include "stack/base/result.h"
#include "stack/qp/engine.h"

namespace verbena::qp_control {

// Checks the transition, then all values, and only then changes anything. EINVAL, or EHOSTUNREACH
// when the destination GID has no known neighbor.
Status modify(Engine& engine, Qp& qp, const abi::QpAttr& attr, uint32_t mask);

abi::QpAttr query(const Qp& qp);

}  // namespace verbena::qp_control
