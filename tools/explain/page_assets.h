// The text of page/style.css and page/script.js; page/embed.py makes the definitions.
#pragma once

#include <string_view>

namespace verbena::explain::page {

extern const std::string_view kStyleCss;
extern const std::string_view kScriptJs;

}  // namespace verbena::explain::page
