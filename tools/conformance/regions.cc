#include "tools/conformance/regions.h"

#include <algorithm>

#include "tools/conformance/script.h"

namespace verbena::conformance {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 28;

}  // namespace

void Regions::reach(Key rkey, uint64_t va, uint64_t bytes, uint32_t access) {
  if (bytes == 0) return;
  Region& region = regions_[rkey];
  region.begin = region.end == 0 ? va : std::min(region.begin, va);
  region.end = std::max(region.end, va + bytes);
  region.access |= access;
  if (va + bytes < va || region.end - region.begin > kMostBytes) fit_ = false;
}

std::optional<uint64_t> Regions::place(Region& region, uint64_t va, std::vector<uint8_t>& bytes) {
  if (va < region.begin || va >= region.end || bytes.empty()) return std::nullopt;
  region.bytes.resize(region.end - region.begin);
  region.known.resize(region.bytes.size());
  bytes.resize(std::min<uint64_t>(bytes.size(), region.end - va));
  return va - region.begin;
}

Data Regions::data_of(const std::vector<uint32_t>& packets) {
  return {Data::Kind::kPackets, {}, 0, packets};
}

std::vector<uint8_t> Regions::payloads(const std::vector<uint32_t>& packets) const {
  return resolve(data_of(packets), 0, capture_);
}

void Regions::written(Key rkey, uint64_t va, const std::vector<uint32_t>& packets) {
  std::vector<uint8_t> bytes = payloads(packets);
  Region& region = regions_[rkey];
  const auto at = place(region, va, bytes);
  if (!at) return;
  const uint64_t offset = *at;
  std::copy(bytes.begin(), bytes.end(), region.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  std::fill_n(region.known.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), true);
  region.expect.push_back({offset, data_of(packets)});
}

void Regions::read(Key rkey, uint64_t va, const std::vector<uint32_t>& packets, uint32_t before) {
  std::vector<uint8_t> bytes = payloads(packets);
  Region& region = regions_[rkey];
  const auto at = place(region, va, bytes);
  if (!at) return;
  const uint64_t offset = *at;
  bool other = false;
  bool unknown = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    unknown = unknown || !region.known[offset + i];
    other = other || (region.known[offset + i] && region.bytes[offset + i] != bytes[i]);
    region.bytes[offset + i] = bytes[i];
    region.known[offset + i] = true;
  }
  const Piece piece{offset, data_of(packets)};
  if (other) {
    // The application has written there in the meantime.
    stores_.push_back({rkey, {When::Kind::kBefore, before, 0}, piece});
    region.expect.push_back(piece);
  } else if (unknown) {
    region.contents.push_back(piece);
  }
}

void Regions::add_to(Case& c) && {
  std::map<Key, size_t> places;
  for (auto& [rkey, region] : regions_) {
    if (region.end == 0) continue;
    places[rkey] = c.memories.size();
    MemorySection memory;
    memory.va = region.begin;
    memory.bytes = region.end - region.begin;
    memory.access = region.access;
    memory.key = rkey;
    memory.contents = std::move(region.contents);
    memory.expect = std::move(region.expect);
    c.memories.push_back(std::move(memory));
  }
  for (Stored& stored : stores_) {
    c.stores.push_back({places.at(stored.rkey), stored.when, std::move(stored.piece)});
  }
}

}  // namespace verbena::conformance
