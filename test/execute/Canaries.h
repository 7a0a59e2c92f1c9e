// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lies around rows that a kernel writes, and has to be there afterwards.
#ifndef HEDDLE_TEST_EXECUTE_CANARIES_H
#define HEDDLE_TEST_EXECUTE_CANARIES_H

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace heddle::test {

constexpr float canary = -12345.678f;

// `rows` rows of `width` numbers out of (rows + 2, stride), of which the rest still is canaries, which is expected.
inline std::vector<float> takeRows(const std::vector<float> &out, int64_t rows, int64_t stride, int64_t width) {
  std::vector<float> result;
  int64_t spoiled = 0;
  for (int64_t row = 0; row < rows + 2; ++row)
    for (int64_t column = 0; column < stride; ++column) {
      float value = out[row * stride + column];
      if (row >= 1 && row <= rows && column < width)
        result.push_back(value);
      else
        spoiled += value != canary;
    }
  EXPECT_EQ(spoiled, 0) << "floats written outside the rows";
  return result;
}

} // namespace heddle::test

#endif
