// The word that somebody meant who wrote another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbena::tools {

// Of `words` the one that takes the fewest letters to insert, delete or replace; empty when that is
// more than two.
[[nodiscard]] std::string nearest_word(std::string_view written,
                                       const std::vector<std::string>& words);

}  // namespace verbena::tools
