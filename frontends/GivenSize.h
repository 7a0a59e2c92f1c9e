// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_FRONTENDS_GIVENSIZE_H
#define HEDDLE_FRONTENDS_GIVENSIZE_H

#include <cstdint>
#include <string>

namespace heddle {

// A size that inputs of a graph leave open, given while it is compiled.
struct GivenSize {
  std::string name; // of the dimension, or INPUT:AXIS
  int64_t size = 0;
};

} // namespace heddle

#endif
