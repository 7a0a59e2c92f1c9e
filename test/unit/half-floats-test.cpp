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

// Every half and its neighbours, half way to the next one and beside that, against the processor's own rounding.
TEST(HalfFloats, floatsRoundToTheNearestHalf) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    float low = halfToFloat(uint16_t(bits)), high = bits == 0x7bff ? 65536 : halfToFloat(uint16_t(bits + 1));
    float middle = (low + high) / 2;
    for (float value : {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f), -middle, -low}) {
      auto rounded = static_cast<_Float16>(value);
      uint16_t expected;
      memcpy(&expected, &rounded, sizeof expected);
      ASSERT_EQ(floatToHalf(value), expected) << value;
    }
  }
  EXPECT_EQ(floatToHalf(INFINITY), 0x7c00);
  EXPECT_TRUE(std::isnan(halfToFloat(floatToHalf(NAN))));
}

TEST(HalfFloats, floatsRoundToTheNearestBfloat) {
  EXPECT_EQ(floatToBfloat(1), 0x3f80);
  EXPECT_EQ(floatToBfloat(floatFromBits(0x3f808000)), 0x3f80); // ties to even
  EXPECT_EQ(floatToBfloat(floatFromBits(0x3f818000)), 0x3f82);
  EXPECT_EQ(floatToBfloat(floatFromBits(0xbf808001)), 0xbf81);
  EXPECT_EQ(floatToBfloat(floatFromBits(0x7f7fffff)), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloatToFloat(floatToBfloat(floatFromBits(0x7f800001)))));
}

} // namespace
