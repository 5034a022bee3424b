// Ladder diagrams as one page for a browser: no network, font or script from elsewhere. The page's
// style and script are in page/.
#pragma once

#include <string>

#include "tools/explain/ladder.h"

namespace verbena::explain {

// `title` is the capture's name; anything in it is escaped.
std::string ladder_html(const trace::Trace& trace, const Picture& picture,
                        const std::string& title);

}  // namespace verbena::explain
