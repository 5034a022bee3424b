// What `verbena explain` prints with --json: the facts of the ladder diagram, unfolded.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/explain/ladder.h"

namespace verbena::tools {

// {"connections": [...], "packets": [...]}. Packets refer to each other by their numbers in the
// capture, and to connections by their positions in the list.
nlohmann::json explain_json(const trace::Trace& trace, const explain::Picture& picture);

}  // namespace verbena::tools
