#include "provider/qp_map.h"

#include <cstdlib>

namespace verbena::provider {

namespace {
constexpr uint32_t kFirstCapacity = 8;
}

QpMap::~QpMap() {
  std::free(entries_);
}

bool QpMap::insert(uint32_t qpn, Qp* qp) {
  if (find(qpn) == qp) return true;
  if ((count_ + 1) * 2 > capacity_ && !grow()) return false;
  place(qpn, qp);
  ++count_;
  return true;
}

void QpMap::remove(uint32_t qpn, const Qp* qp) {
  if (capacity_ == 0) return;
  const uint32_t mask = capacity_ - 1;
  uint32_t hole = home(qpn);
  while (entries_[hole].qp != qp) {
    if (entries_[hole].qp == nullptr) return;
    hole = (hole + 1) & mask;
  }
  // Move back whoever was pushed past the hole by a collision.
  for (uint32_t i = (hole + 1) & mask; entries_[i].qp != nullptr; i = (i + 1) & mask) {
    const uint32_t wanted = home(entries_[i].qpn);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      entries_[hole] = entries_[i];
      hole = i;
    }
  }
  entries_[hole].qp = nullptr;
  --count_;
}

bool QpMap::grow() {
  const uint32_t old_capacity = capacity_;
  Entry* const old = entries_;
  const uint32_t capacity = old_capacity == 0 ? kFirstCapacity : old_capacity * 2;
  auto* entries = static_cast<Entry*>(std::calloc(capacity, sizeof(Entry)));
  if (entries == nullptr) return false;
  entries_ = entries;
  capacity_ = capacity;
  for (uint32_t i = 0; i < old_capacity; ++i) {
    if (old[i].qp != nullptr) place(old[i].qpn, old[i].qp);
  }
  std::free(old);
  return true;
}

void QpMap::place(uint32_t qpn, Qp* qp) {
  uint32_t i = home(qpn);
  while (entries_[i].qp != nullptr) i = (i + 1) & (capacity_ - 1);
  entries_[i] = {qpn, qp};
}

}  // namespace verbena::provider
