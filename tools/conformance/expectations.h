// What a case says about a step, to whoever plays it: the engine's player and the live device's.
#pragma once

#include <cstdint>
#include <string>

#include "tools/conformance/case.h"
#include "tools/conformance/compare.h"
#include "tools/conformance/script.h"

namespace verbena::conformance {

// By [[difference]] and [compare] ignore.
Exceptions exceptions_of(const Case& c, uint32_t packet);
// The [[difference]] by which the device does not send this packet; null: it does.
const Difference* not_sent(const Case& c, uint32_t packet);
// What the application does in a step of kRecv, kSend, kStore or kModify, for a row.
std::string action_text(const Case& c, const Step& step);

}  // namespace verbena::conformance
