// Modify, query and reset of a queue pair (IBTA vol. 1 ch. 11.2.5).
#pragma once

#include "stack/abi/control.h"
#include "stack/base/result.h"
#include "stack/qp/engine.h"

namespace verbena::qp_control {

// Checks the transition, then all values, and only then changes anything. EINVAL, or EHOSTUNREACH
// when the destination GID has no known neighbor.
Status modify(Engine& engine, Qp& qp, const abi::QpAttr& attr, uint32_t mask);

// The way to an address: EINVAL, or EHOSTUNREACH when its GID has no known neighbor. RoCE needs the
// addresses of a global route header (Annex A17).
Result<wire::Path> resolve(const Engine& engine, const abi::CreateAh& address);

abi::QpAttr query(const Qp& qp);

}  // namespace verbena::qp_control
