// Runs a fuzz target on inputs that are kept, in builds without libFuzzer: TARGET FILE...
//
// A .txt file holds an input a line in hexadecimal, with comments after #; any other file is one
// input. Each lies in memory of exactly its size, so that a sanitizer sees a read beyond the end.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes from_hex(const std::string& line) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < line.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(line.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<Bytes> inputs_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  if (path.extension() != ".txt") return {Bytes{std::istreambuf_iterator<char>(file), {}}};
  std::vector<Bytes> inputs;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) inputs.push_back(from_hex(line));
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const Bytes& input : inputs_of(argv[i])) {
      const auto exact = std::make_unique<uint8_t[]>(input.size());
      std::copy(input.begin(), input.end(), exact.get());
      std::printf("%s: input %zu\n", argv[i], ++count);
      std::fflush(stdout);  // the last one named is the one that failed
      if (LLVMFuzzerTestOneInput(exact.get(), input.size()) != 0) return 1;
    }
  }
  std::printf("%zu inputs\n", count);
  return count == 0 ? 1 : 0;
}
