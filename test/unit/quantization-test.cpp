// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Block types against files of random blocks and the values that PyPI gguf's quants.dequantize gives for them.
#include "bytes/Sha256.h"
#include "bytes/Text.h"
#include "frontends/Checkpoint.h"
#include "frontends/LatticePoints.h"
#include "frontends/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace heddle;

namespace {

std::string readData(const std::string &name) {
  std::ifstream file(std::string(HEDDLE_TEST_DIR) + "/unit/data/quantization/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class BlockType : public testing::TestWithParam<TensorType> {};

TEST_P(BlockType, equalsReference) {
  const TensorTypeInfo &info = tensorTypeInfo(GetParam());
  std::string blocks = readData(std::string(info.name) + ".blocks"),
              reference = readData(std::string(info.name) + ".f32");
  size_t count = blocks.size() / info.blockBytes * info.blockValues;
  ASSERT_EQ(blocks.size(), 4 * info.blockBytes);
  ASSERT_EQ(reference.size(), count * sizeof(float));
  std::vector<float> expected(count), actual(count);
  std::memcpy(expected.data(), reference.data(), reference.size());
  dequantize(GetParam(), reinterpret_cast<const uint8_t *>(blocks.data()), count, actual.data());
  EXPECT_EQ(actual, expected);
}

INSTANTIATE_TEST_SUITE_P(Quantization, BlockType,
                         testing::Values(TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1,
                                         TensorType::Q8_0, TensorType::Q2_K, TensorType::Q3_K, TensorType::Q4_K,
                                         TensorType::Q5_K, TensorType::Q6_K, TensorType::IQ4_NL, TensorType::IQ4_XS,
                                         TensorType::MXFP4, TensorType::IQ1_S, TensorType::IQ1_M, TensorType::IQ2_XXS,
                                         TensorType::IQ2_XS, TensorType::IQ2_S, TensorType::IQ3_XXS, TensorType::IQ3_S,
                                         TensorType::TQ1_0, TensorType::TQ2_0, TensorType::Q1_0, TensorType::NVFP4),
                         [](const auto &info) { return std::string(tensorTypeInfo(info.param).name); });

// Every point, of which random blocks meet some: digests that make_integers.py prints.
TEST(Quantization, latticesAreThoseOfTheReference) {
  auto digest = [](const auto &points) { return hexadecimal(sha256(points, sizeof points).data(), 8); };
  EXPECT_EQ(digest(iq2xxsPoints), "915952ebc4af8ddb");
  EXPECT_EQ(digest(iq2xsPoints), "f66435966ca8d64e");
  EXPECT_EQ(digest(iq2sPoints), "e6e75e121b65e8af");
  EXPECT_EQ(digest(iq1Points), "e9ffebfc997ad602");
  EXPECT_EQ(digest(iq3xxsPoints), "c9678803c61b2210");
  EXPECT_EQ(digest(iq3sPoints), "353274c58dd7d8dc");
}

template <typename T> float dequantized(TensorType type, T value) {
  float out;
  dequantize(type, reinterpret_cast<const uint8_t *>(&value), 1, &out);
  return out;
}

// The blocks that NVFP4's become have the same numbers: each scale of E4M3 is a number of f16, shifted or not.
TEST(Quantization, scalesOfNvfp4AreExactInHalves) {
  for (int bits = 0; bits < 0x7f; ++bits) {
    uint8_t block[10] = {}, file[36] = {uint8_t(bits)};
    putE2M1Scale(e4m3ToFloat(uint8_t(bits)), block);
    for (int i = 0; i < 8; ++i)
      block[2 + i] = file[4 + i] = uint8_t(16 * (i + 8) + i);
    std::vector<float> converted(16), stored(64);
    dequantize(TensorType::E2M1_F16, block, 16, converted.data());
    dequantize(TensorType::NVFP4, file, 64, stored.data());
    EXPECT_TRUE(std::equal(converted.begin(), converted.end(), stored.begin())) << bits;
  }
}

TEST(Quantization, halfPrecision) {
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0x3c00), 1.0f);
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0xc001), -2.001953125f);
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0x0001), 0x1p-24f);
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0x83ff), -0x1.ff8p-15f);
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0x7bff), 65504.0f);
  EXPECT_EQ(dequantized<uint16_t>(TensorType::F16, 0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(dequantized<uint16_t>(TensorType::F16, 0x7e00)));
  EXPECT_TRUE(std::signbit(dequantized<uint16_t>(TensorType::F16, 0x8000)));
  EXPECT_EQ(dequantized<uint16_t>(TensorType::BF16, 0xbf80), -1.0f);
}

TEST(Quantization, plainTypes) {
  EXPECT_EQ(dequantized<float>(TensorType::F32, 0.1f), 0.1f);
  EXPECT_EQ(dequantized<double>(TensorType::F64, 0.5), 0.5f);
  EXPECT_EQ(dequantized<int8_t>(TensorType::I8, -3), -3.0f);
  EXPECT_EQ(dequantized<int16_t>(TensorType::I16, -300), -300.0f);
  EXPECT_EQ(dequantized<int32_t>(TensorType::I32, 1 << 20), 1048576.0f);
  EXPECT_EQ(dequantized<int64_t>(TensorType::I64, -(1LL << 40)), -0x1p40f);
  EXPECT_EQ(dequantized<uint8_t>(TensorType::U8, 255), 255.0f);
  EXPECT_EQ(dequantized<uint8_t>(TensorType::Bool, 1), 1.0f);
}

} // namespace
