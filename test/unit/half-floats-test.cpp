// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/HalfFloats.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

// Every bit pattern, against the processor's own type.
TEST(HalfFloats, everyHalfIsExact) {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    _Float16 expected;
    memcpy(&expected, &half, sizeof half);
    float got = halfToFloat(half), wide = static_cast<float>(expected);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(got)) << bits;
    else
      EXPECT_EQ(memcmp(&got, &wide, sizeof got), 0) << bits;
  }
}

TEST(HalfFloats, bfloatIsTheUpperHalf) {
  EXPECT_EQ(bfloatToFloat(0x3f80), 1.0f);
  EXPECT_EQ(bfloatToFloat(0xc049), -3.140625f);
  EXPECT_EQ(bfloatToFloat(0x0001), std::ldexp(1.0f, -133));
  EXPECT_TRUE(std::isinf(bfloatToFloat(0xff80)) && std::signbit(bfloatToFloat(0xff80)));
}

} // namespace
