#include "tools/nearest_word.h"

#include <algorithm>

namespace verbena::tools {

namespace {

// The Levenshtein distance, for words of a few letters.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view written, const std::vector<std::string>& words) {
  std::string nearest;
  size_t least = 3;
  for (const std::string& word : words) {
    const size_t letters = distance(written, word);
    if (letters >= least) continue;
    least = letters;
    nearest = word;
  }
  return nearest;
}

}  // namespace verbena::tools
