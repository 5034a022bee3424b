// Plain text tables: columns as wide as their widest cell, two spaces between them, numbers to the
// right. No colours, no frames: they are read aloud, cut and grepped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::tools {

class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // Missing cells are empty.
  void add(std::vector<std::string> row);
  [[nodiscard]] bool empty() const { return rows_.size() < 2; }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

}  // namespace verbena::tools
