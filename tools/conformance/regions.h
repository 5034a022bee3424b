// The memory regions that RDMA requests of a capture went to, and what must have been in them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

class Regions {
 public:
  explicit Regions(const trace::Capture& capture) : capture_(capture) {}

  // First all ranges that were reached; zero bytes reach nothing.
  void reach(Key rkey, uint64_t va, uint64_t bytes, uint32_t access);
  // Whether they are small enough to be made.
  [[nodiscard]] bool fit() const { return fit_; }
  // Then, in the order of time, what was written, and what was read from where.
  void written(Key rkey, uint64_t va, const std::vector<uint32_t>& packets);
  // `before`: the packet that read it.
  void read(Key rkey, uint64_t va, const std::vector<uint32_t>& packets, uint32_t before);

  // Into the case.
  void add_to(Case& c) &&;

 private:
  struct Region {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t access = 0;
    std::vector<uint8_t> bytes;
    std::vector<bool> known;
    std::vector<Piece> contents;
    std::vector<Piece> expect;
  };
  struct Stored {
    Key rkey;
    When when;
    Piece piece;
  };

  // What of `bytes` at `va` lies in the region, as an offset; makes room for it to be known.
  [[nodiscard]] static std::optional<uint64_t> place(Region& region, uint64_t va,
                                                     std::vector<uint8_t>& bytes);
  [[nodiscard]] static Data data_of(const std::vector<uint32_t>& packets);
  [[nodiscard]] std::vector<uint8_t> payloads(const std::vector<uint32_t>& packets) const;

  const trace::Capture& capture_;
  std::map<Key, Region> regions_;
  std::vector<Stored> stores_;
  bool fit_ = true;
};

}  // namespace verbena::conformance
