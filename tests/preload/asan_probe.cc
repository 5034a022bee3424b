// A program with the address sanitizer in it (linked statically): its interceptors stand in front
// of the preload library's entries and must work with them.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/preload/probe.h"

using verbena::probe::expect;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string file = std::string(argv[1]) + "/fw_ver";
  std::vector<char> text(64);
  FILE* stream = std::fopen(file.c_str(), "r");
  expect(stream != nullptr && std::fgets(text.data(), 64, stream) != nullptr, "fopen");
  if (stream != nullptr) std::fclose(stream);
  const int fd = open(file.c_str(), O_RDONLY);
  expect(fd >= 0 && read(fd, text.data(), text.size()) == 6, "open and read");
  close(fd);
  char* resolved = realpath(file.c_str(), nullptr);
  expect(resolved != nullptr, "realpath");
  std::free(resolved);
  return verbena::probe::finish();
}
