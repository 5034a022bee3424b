// Shared-memory words between a client and the daemon, with their memory order.
//
// Who writes what: each atomic word below has one writing side, named in its comment. Indices are
// free-running u32: entry i lives in slot i & (depth - 1), depth being a power of two.
//
// Regions are memfds that the daemon makes, seals against shrinking and growing, fills with pages
// and hands to the client; one region per queue pair and per completion queue, one DoorbellPage per
// client, one WorkerPage per polling thread (clients map that one read-only).
//
// A client may write anything anywhere in its own regions at any time. The daemon copies a word or
// an entry once, checks it, then uses the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::abi {

inline constexpr size_t kCacheLine = 64;

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Written by the daemon, read by clients.
struct WorkerPage {
  // 1 while the polling thread sleeps or is about to. The daemon stores 1, fences (seq_cst), looks
  // at all doorbells once more, and only then waits. A client rings its doorbell (a seq_cst
  // read-modify-write), then reads this word, and kicks if it is 1.
  alignas(kCacheLine) std::atomic<uint32_t> sleeping;
};

// One bit per queue pair that has new work, with summary words above. Never full; an idle queue
// pair costs nothing. Clients set bits, the daemon clears them.
struct DoorbellPage {
  static constexpr uint32_t kSummaryWords = 4;
  static constexpr uint32_t kWords = kSummaryWords * 64;
  static constexpr uint32_t kSlots = kWords * 64;  // 16384 doorbells per client

  alignas(kCacheLine) std::atomic<uint64_t> summary[kSummaryWords];
  alignas(kCacheLine) std::atomic<uint64_t> words[kWords];

  // Client: call after the new tail was stored. Full fence on return.
  void ring(uint32_t slot) {
    const uint64_t bit = uint64_t{1} << (slot % 64);
    const uint32_t word = slot / 64;
    // A bit that was set already has its summary set by whoever set it.
    if (words[word].fetch_or(bit, std::memory_order_seq_cst) & bit) return;
    summary[word / 64].fetch_or(uint64_t{1} << (word % 64), std::memory_order_seq_cst);
  }

  // Daemon: is any bit set?
  bool any() const {
    uint64_t bits = 0;
    for (const auto& word : summary) bits |= word.load(std::memory_order_seq_cst);
    return bits != 0;
  }

  // Daemon: clears all set bits and calls visit(slot) for each. The bit is cleared before the
  // caller reads the tail, so that work posted meanwhile sets it again.
  template <typename Visitor>
  void drain(Visitor&& visit) {
    for (uint32_t s = 0; s < kSummaryWords; ++s) {
      if (summary[s].load(std::memory_order_relaxed) == 0) continue;
      uint64_t set_words = summary[s].exchange(0, std::memory_order_seq_cst);
      for (; set_words != 0; set_words &= set_words - 1) {
        const uint32_t word = s * 64 + static_cast<uint32_t>(__builtin_ctzll(set_words));
        uint64_t bits = words[word].exchange(0, std::memory_order_seq_cst);
        for (; bits != 0; bits &= bits - 1) {
          visit(word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits)));
        }
      }
    }
  }
};

// Head of a queue pair's region. The send ring begins at QpLayout::sq_offset, the receive ring at
// rq_offset.
struct QpHeader {
  alignas(
      kCacheLine) std::atomic<uint32_t> sq_tail;  // client, release: entries before it are posted
  alignas(kCacheLine) std::atomic<uint32_t> rq_tail;  // client, release
  // Daemon: 1 while the queue pair is in the error state and newly posted receives must be flushed.
  // A receive needs no doorbell otherwise: the client stores rq_tail, fences (seq_cst), reads this
  // word, and rings the doorbell if it is 1. (Sends always ring.)
  alignas(kCacheLine) std::atomic<uint32_t> flushing;
};

// Head of a shared receive queue's region. Work requests complete out of order, so they lie in
// slots that the client hands out and takes back; the index ring at SrqLayout::index_offset says in
// which order they were posted: entry i & (depth - 1) holds a slot number. A completion entry's
// wqe_index is the slot number.
struct SrqHeader {
  alignas(
      kCacheLine) std::atomic<uint32_t> tail;  // client, release: index entries before it are set
};

// Head of a completion queue's region. The entries begin at kCqEntriesOffset.
struct CqHeader {
  // Client, release: entries before it are consumed. The daemon reads it to detect overflow.
  alignas(kCacheLine) std::atomic<uint32_t> consumer;
  // Client: bits 1:0 an ArmKind, bits 31:2 a counter that changes with every request. An event is
  // sent once per value. The client stores it and fences (seq_cst) before it polls again; the
  // daemon stores a CQE, fences, then reads it.
  alignas(kCacheLine) std::atomic<uint32_t> arm;
  // Daemon: the last value of `arm` for which an event was sent.
  alignas(kCacheLine) std::atomic<uint32_t> fired;
};

enum ArmKind : uint32_t { kArmNone = 0, kArmAny = 1, kArmSolicited = 2 };

inline constexpr size_t kQpRingsOffset = 4 * kCacheLine;
inline constexpr size_t kCqEntriesOffset = 4 * kCacheLine;
inline constexpr size_t kSrqIndexOffset = 4 * kCacheLine;

static_assert(sizeof(QpHeader) <= kQpRingsOffset);
static_assert(sizeof(CqHeader) <= kCqEntriesOffset);
static_assert(sizeof(SrqHeader) <= kSrqIndexOffset);
static_assert(sizeof(WorkerPage) <= 4096);
static_assert(sizeof(DoorbellPage) <= 4096);

}  // namespace verbena::abi
