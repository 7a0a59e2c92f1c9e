// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slopes and buckets beside those of transformers 5.23: build_alibi_tensor of Bloom, _relative_position_bucket of T5.

#include "frontends/families/DistanceBias.h"

#include "gtest/gtest.h"

using namespace heddle;

namespace {

TEST(DistanceBias, SlopesOfAPowerOfTwo) {
  EXPECT_EQ(alibiSlopes(4), (std::vector<float>{0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_EQ(alibiSlopes(1), (std::vector<float>{0.00390625}));
}

TEST(DistanceBias, SlopesOfOtherHeadCounts) {
  EXPECT_EQ(alibiSlopes(6), (std::vector<float>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  const std::vector<float> twelve = {0.5f,       0.25f,       0.125f,      0.0625f,     0.03125f,    0.015625f,
                                     0.0078125f, 0.00390625f, 0.70710677f, 0.35355338f, 0.17677669f, 0.08838835f};
  std::vector<float> slopes = alibiSlopes(12);
  ASSERT_EQ(slopes.size(), twelve.size());
  for (size_t head = 0; head < twelve.size(); ++head)
    EXPECT_FLOAT_EQ(slopes[head], twelve[head]) << head;
}

TEST(DistanceBias, SlopesOfAnotherBias) {
  EXPECT_EQ(alibiSlopes(2, 4.0), (std::vector<float>{0.25, 0.0625}));
}

TEST(DistanceBias, BucketsOfBothSides) {
  DistanceBias bias = relativeBuckets("table", true, 32, 128);
  EXPECT_EQ(bias.table, "table");
  EXPECT_EQ(bias.starts, (std::vector<int64_t>{-90, -63, -45, -31, -22, -15, -11, -7, -6, -5, -4, -3, -2, -1, 0,
                                               1,   2,   3,   4,   5,   6,   7,   8,  12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(bias.rows, (std::vector<int64_t>{31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 0,
                                             1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15}));
  bias = relativeBuckets("table", true, 8, 20);
  EXPECT_EQ(bias.starts, (std::vector<int64_t>{-6, -1, 0, 1, 2, 7}));
  EXPECT_EQ(bias.rows, (std::vector<int64_t>{7, 6, 5, 0, 1, 2, 3}));
}

TEST(DistanceBias, BucketsOfWhatIsBehind) {
  DistanceBias bias = relativeBuckets("table", false, 8, 20);
  EXPECT_EQ(bias.starts, (std::vector<int64_t>{1, 2, 3, 4, 6, 9, 14}));
  EXPECT_EQ(bias.rows, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  bias = relativeBuckets("table", false, 32, 1000);
  EXPECT_EQ(bias.starts, (std::vector<int64_t>{1,  2,  3,  4,  5,  6,  7,  8,   9,   10,  11,  12,  13,  14,  15, 16,
                                               21, 27, 35, 45, 59, 76, 98, 127, 164, 213, 275, 356, 461, 597, 773}));
  EXPECT_EQ(bias.rows.back(), 31);
}

} // namespace
