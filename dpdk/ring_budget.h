// RingBudget: how much memory the rings of all clients may take. The daemon pays for them, so that
// one client must not be able to take what others need.
//
// Control thread only. Sizes in bytes.
#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>

#include "stack/base/result.h"

namespace verbena {

class RingBudget {
 public:
  explicit RingBudget(uint64_t bytes) : left_(bytes) {}
  RingBudget(const RingBudget&) = delete;
  RingBudget& operator=(const RingBudget&) = delete;

  // What one client has. Outlives its loans.
  struct Account {
    uint64_t bytes = 0;
  };

  // Gives back what was lent when it ends.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          account_(other.account_),
          bytes_(other.bytes_) {}
    Loan& operator=(Loan&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(account_, other.account_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Loan() {
      if (budget_ == nullptr) return;
      budget_->left_ += bytes_;
      account_->bytes -= bytes_;
    }

   private:
    friend RingBudget;
    Loan(RingBudget& budget, Account& account, uint64_t bytes)
        : budget_(&budget), account_(&account), bytes_(bytes) {
      budget.left_ -= bytes;
      account.bytes += bytes;
    }

    RingBudget* budget_ = nullptr;
    Account* account_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // ENOMEM when the client would then have more than is left for all others: however much the first
  // one wants, the next finds as much as that one got.
  Result<Loan> lend(uint64_t bytes, Account& account) {
    if (bytes > left_ || account.bytes + bytes > left_ - bytes) return Status(ENOMEM);
    return Loan(*this, account, bytes);
  }

 private:
  uint64_t left_;
};

// Half of the memory that this process may have: the machine's, or what its control group allows.
uint64_t memory_for_rings();

}  // namespace verbena
