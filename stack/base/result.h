// Result<T>: a value or an errno. (C++20 has no std::expected; the engine has no exceptions.)
//
// The error is a positive errno value, because that is what travels to the verbs caller in the end:
// one vocabulary from the engine to ibv_create_qp's errno.
#pragma once

#include <cerrno>
#include <utility>
#include <variant>

#include "stack/base/assert.h"

namespace verbena {

// A positive errno value; zero means success.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr explicit Status(int error_number) : error_(error_number) {}

  constexpr bool ok() const { return error_ == 0; }
  constexpr int error() const { return error_; }

 private:
  int error_ = 0;
};

inline constexpr Status kOk{};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : storage_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  Result(Status error) : storage_(std::in_place_index<1>, error) {         // NOLINT: implicit
    VERBENA_ASSERT(!error.ok());
  }

  bool ok() const { return storage_.index() == 0; }
  int error() const { return status().error(); }
  Status status() const {
    const Status* error = std::get_if<1>(&storage_);
    return error != nullptr ? *error : kOk;
  }

  // Only when ok().
  T& operator*() { return value(); }
  const T& operator*() const { return const_cast<Result*>(this)->value(); }
  T* operator->() { return &value(); }

 private:
  T& value() {
    VERBENA_ASSERT(ok());
    return *std::get_if<0>(&storage_);
  }

  std::variant<T, Status> storage_;
};

}  // namespace verbena
