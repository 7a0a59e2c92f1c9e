// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every reader of hostile bytes needs: arithmetic that cannot wrap unseen, and text that is safe to print.
#ifndef HEDDLE_FRONTENDS_SIZE_H
#define HEDDLE_FRONTENDS_SIZE_H

#include "frontends/Expected.h"

#include <cstdint>
#include <string>
#include <string_view>

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

// `text` as it may stand in a message: control bytes, quotes and bytes outside ASCII as \xNN, at most `limit` bytes of it.
std::string printable(std::string_view text, size_t limit = 160);

// "FILE: WHAT": the form of every message of the readers.
Error errorIn(std::string_view file, const std::string &what);

// Whether `text` is well-formed UTF-8 (no surrogates, nothing overlong, at most U+10FFFF).
bool isUtf8(std::string_view text);

} // namespace heddle

#endif
