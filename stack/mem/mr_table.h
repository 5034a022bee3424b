// MrTable: memory regions and the MTT, the only way from a key to client memory.
//
// A key is an index (bits 31:8) and a variant (bits 7:0) that changes each time the index is given
// out or re-registered, so that a stale key is refused. lkey and rkey of a region are the same
// number; which rights it carries is decided by the access flags.
//
// Every use is checked against protection domain, *all* requested access bits, and bounds without
// overflow (IBTA vol. 1 ch. 10.6). A region is one piece of client memory here; the translation's
// form leaves room for several (pages mapped in both processes).
#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/id_table.h"
#include "stack/base/result.h"
#include "stack/mem/client_memory.h"
#include "stack/types.h"

namespace verbena {

struct Mr {
  ClientId client = 0;
  PdId pd = 0;
  uint32_t access = 0;
  uint64_t va = 0;
  uint64_t length = 0;
  uint64_t iova = 0;
  Key key = 0;
  ClientMemory* memory = nullptr;
};

// Where checked bytes are: `va` in the address space behind `memory`.
struct Translation {
  ClientMemory* memory = nullptr;
  uint64_t va = 0;
};

enum class MrError : uint8_t {
  kNone,
  kUnknownKey,
  kWrongPd,
  kNoAccess,
  kOutOfRange,
};

class MrTable {
 public:
  MrTable(uint32_t capacity, uint64_t seed);

  // The region's key; ENOMEM when the table is full.
  Result<Key> add(const Mr& mr);
  // Replaces the region under a new key with the same index.
  Key replace(Key key, const Mr& mr);
  void remove(Key key);
  // nullptr unless the key, variant included, is current.
  const Mr* find(Key key) const;

  // Checks `length` bytes at `address` (in the region's own addressing). Length 0 is checked too.
  MrError translate(Key key, PdId pd, uint64_t address, uint64_t length, uint32_t access,
                    Translation& out) const;

  template <typename Visitor>
  void for_each(Visitor&& visit) {
    table_.for_each([&](uint32_t, Mr& mr) { visit(mr); });
  }

 private:
  Key next_key(uint32_t index);

  IdTable<Mr> table_;
  std::vector<uint8_t> variants_;  // by index, the one last given out
};

}  // namespace verbena
