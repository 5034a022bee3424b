// Folds long runs of packets that say nothing by themselves.
#pragma once

#include <span>
#include <vector>

#include "tools/explain/ladder.h"

namespace verbena::explain {

// Rows for these packets, in their order: runs of alike packets become one row; so do long
// stretches without trouble but for their begin and end. With `all`, each packet has its row.
std::vector<Row> fold(const trace::Trace& trace, std::span<const trace::Index> packets, bool all);

}  // namespace verbena::explain
