// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of the readers, which build without LLVM and without exceptions. A message is one line: file, field or byte
// offset, value, what was expected.
#ifndef HEDDLE_FRONTENDS_EXPECTED_H
#define HEDDLE_FRONTENDS_EXPECTED_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace heddle {

struct Error {
  std::string message;
};

// A value, or the error that says why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : value(std::move(value)) {}
  Expected(Error error) : failure(std::move(error)) {}
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
  Error takeError() const {
    assert(!value);
    return failure;
  }

private:
  std::optional<T> value;
  Error failure;
};

// Success without a value: `return Done{};`.
struct Done {};
using Status = Expected<Done>;

} // namespace heddle

#endif
