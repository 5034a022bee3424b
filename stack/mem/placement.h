// Placement: collects the payloads of consecutive packets of one message and stores them with one
// call to the client's memory.
//
// What is added must stay valid until flush(). One piece of contiguous client memory of one owner
// at a time; anything else flushes first. The last 8 bytes of what is flushed are stored after all
// others, so the owner flushes at the end of each message, before its completion entry and before
// any acknowledgment (see ClientMemory::write).
#pragma once

#include <array>
#include <cstdint>

#include "stack/mem/client_memory.h"
#include "stack/mem/mr_table.h"
#include "stack/wire/psn.h"

namespace verbena {

struct Qp;

class Placement {
 public:
  static constexpr uint32_t kMaxPieces = 64;

  // Whose bytes they are, to be told when they cannot be stored.
  struct Owner {
    Qp* qp = nullptr;
    bool response = false;  // data of a READ response (else of a request)
    Psn psn;                // of the packet
  };

  // True if `bytes` can be added behind what is held; else flush() first.
  bool fits(const Owner& owner, const Translation& where) const {
    return count_ == 0 ||
           (count_ < kMaxPieces && owner.qp == owner_.qp && owner.response == owner_.response &&
            where.memory == memory_ && where.va == va_ + total_);
  }
  void add(const Owner& owner, const Translation& where, ConstBytes bytes) {
    if (count_ == 0) {
      owner_ = owner;
      memory_ = where.memory;
      va_ = where.va;
      total_ = 0;
    }
    pieces_[count_++] = bytes;
    total_ += bytes.size;
  }

  bool empty() const { return count_ == 0; }
  const Owner& owner() const { return owner_; }  // of the first piece

  // Stores what is held, and holds nothing afterwards.
  MemResult flush() {
    if (count_ == 0) return MemResult::kDone;
    const auto result = memory_->write(va_, {pieces_.data(), count_}, true);
    count_ = 0;
    return result;
  }

  // Forgets what is held for `qp`.
  void discard(const Qp* qp) {
    if (count_ != 0 && owner_.qp == qp) count_ = 0;
  }

 private:
  std::array<ConstBytes, kMaxPieces> pieces_;
  uint32_t count_ = 0;
  Owner owner_;
  ClientMemory* memory_ = nullptr;
  uint64_t va_ = 0;
  uint64_t total_ = 0;
};

}  // namespace verbena
