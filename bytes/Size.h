// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on what hostile bytes say, which cannot wrap unseen.
#ifndef HEDDLE_BYTES_SIZE_H
#define HEDDLE_BYTES_SIZE_H

#include <cstdint>

namespace heddle {

// An unsigned 64-bit count whose overflow sticks: compute first, ask once at the end.
class Size {
public:
  Size(uint64_t value) : number(value) {}
  Size operator*(Size other) const {
    Size result(0);
    result.overflowed = __builtin_mul_overflow(number, other.number, &result.number) || overflowed || other.overflowed;
    return result;
  }
  Size operator+(Size other) const {
    Size result(0);
    result.overflowed = __builtin_add_overflow(number, other.number, &result.number) || overflowed || other.overflowed;
    return result;
  }
  bool valid() const { return !overflowed; }
  bool atMost(uint64_t limit) const { return !overflowed && number <= limit; }
  uint64_t value() const { return number; }

private:
  uint64_t number;
  bool overflowed = false;
};

} // namespace heddle

#endif
