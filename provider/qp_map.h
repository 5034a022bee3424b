// QPN -> Qp, one map per completion queue, for the queue pairs that complete there.
//
// Thread rule: everything under the lock of its completion queue. The
// poller holds that lock anyway, so a look-up costs no further synchronisation, and a queue pair
// that was removed under the lock can be freed.
//
// Open addressing with linear probing, at most half full; a removal moves later entries back, so
// there are no tombstones.
#pragma once

#include <cstdint>

namespace verbena::provider {

struct Qp;

class QpMap {
 public:
  QpMap() = default;
  ~QpMap();
  QpMap(const QpMap&) = delete;
  QpMap& operator=(const QpMap&) = delete;

  // An entry for a queue pair that completes here twice (sends and receives) is kept once.
  // False: no memory.
  bool insert(uint32_t qpn, Qp* qp);
  void remove(uint32_t qpn, const Qp* qp);
  Qp* find(uint32_t qpn) const {
    if (capacity_ == 0) return nullptr;
    for (uint32_t i = home(qpn);; i = (i + 1) & (capacity_ - 1)) {
      if (entries_[i].qp == nullptr) return nullptr;
      if (entries_[i].qpn == qpn) return entries_[i].qp;
    }
  }

  uint32_t count() const { return count_; }
  // For walking over all: slots 0 to capacity() - 1, null when empty.
  uint32_t capacity() const { return capacity_; }
  Qp* slot(uint32_t i) const { return entries_[i].qp; }

 private:
  struct Entry {
    uint32_t qpn;
    Qp* qp;
  };

  uint32_t home(uint32_t qpn) const { return (qpn * 0x9E3779B1U >> 8) & (capacity_ - 1); }
  bool grow();
  void place(uint32_t qpn, Qp* qp);

  Entry* entries_ = nullptr;
  uint32_t capacity_ = 0;  // zero or a power of two
  uint32_t count_ = 0;
};

}  // namespace verbena::provider
