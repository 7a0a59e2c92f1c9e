// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value, or the status that says why there is none.
#ifndef HEDDLE_BYTES_EXPECTED_H
#define HEDDLE_BYTES_EXPECTED_H

#include "bytes/Status.h"

#include <cassert>
#include <optional>

namespace heddle {

template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : value(std::move(value)) {}
  Expected(Status failure) : failure(std::move(failure)) { assert(!this->failure.isOk()); }

  explicit operator bool() const { return value.has_value(); }
  T &operator*() {
    assert(value);
    return *value;
  }
  const T &operator*() const {
    assert(value);
    return *value;
  }
  T *operator->() {
    assert(value);
    return &*value;
  }
  const T *operator->() const {
    assert(value);
    return &*value;
  }
  // Success where there is a value.
  const Status &status() const { return failure; }
  const std::string &message() const { return failure.message(); }

private:
  std::optional<T> value;
  Status failure;
};

} // namespace heddle

#endif
