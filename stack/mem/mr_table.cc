#include "stack/mem/mr_table.h"

namespace verbena {

MrTable::MrTable(uint32_t capacity, uint64_t seed)
    : table_(capacity), variants_(capacity + 1, static_cast<uint8_t>(seed)) {}

Key MrTable::next_key(uint32_t index) {
  return index << 8 | ++variants_[index];
}

Result<Key> MrTable::add(const Mr& mr) {
  if (table_.full()) return Status(ENOMEM);
  auto copy = std::make_unique<Mr>(mr);
  const Key key = next_key(table_.next_id());
  copy->key = key;
  table_.add(std::move(copy));
  return key;
}

Key MrTable::replace(Key key, const Mr& mr) {
  Mr* old = table_.find(key >> 8);
  VERBENA_ASSERT(old != nullptr && old->key == key);
  const Key fresh = next_key(key >> 8);
  *old = mr;
  old->key = fresh;
  return fresh;
}

void MrTable::remove(Key key) {
  VERBENA_ASSERT(find(key) != nullptr);
  table_.remove(key >> 8);
}

const Mr* MrTable::find(Key key) const {
  const Mr* mr = table_.find(key >> 8);
  return mr != nullptr && mr->key == key ? mr : nullptr;
}

MrError MrTable::translate(Key key, PdId pd, uint64_t address, uint64_t length, uint32_t access,
                           Translation& out) const {
  const Mr* mr = find(key);
  if (mr == nullptr) return MrError::kUnknownKey;
  if (mr->pd != pd) return MrError::kWrongPd;
  if ((mr->access & access) != access) return MrError::kNoAccess;
  if (address < mr->iova) return MrError::kOutOfRange;
  const uint64_t offset = address - mr->iova;
  if (offset > mr->length || length > mr->length - offset) return MrError::kOutOfRange;
  out = {mr->memory, mr->va + offset};
  return MrError::kNone;
}

}  // namespace verbena
