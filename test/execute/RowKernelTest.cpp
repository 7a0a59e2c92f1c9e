// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding lookup and quantisation of activations, beside plain loops.

#include "compiler/codegen/targets/cpu/Dequantize.h"
#include "compiler/codegen/targets/cpu/QuantizeKernel.h"
#include "test/execute/RandomWeights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::test;

using EmbeddingFunction = void(const int32_t *ids, const uint8_t *weights, float *out, int64_t rowBegin, int64_t rowEnd,
                               int64_t outStride);
using QuantizeFunction = void(const float *in, int8_t *codes, float *scales, int32_t *sums, int64_t rowBegin,
                              int64_t rowEnd, int64_t inStride);

class RowKernelTest : public testing::TestWithParam<std::string> {};

static std::string targetName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Targets, RowKernelTest, testing::ValuesIn(KernelLibrary::runnableTargets()), targetName);

TEST_P(RowKernelTest, EmbeddingGathersRowsOfEveryFormat) {
  const int32_t ids[] = {0, 36, 15, 16, 17, 17, 31};
  const int64_t n = 37, rows = std::size(ids);
  KernelLibrary library(GetParam());
  std::vector<RandomWeights> matrices;
  auto kernelName = [](const RandomWeights &weights, bool scaled) {
    return std::string("embed_") + tensorTypeInfo(weights.type).name + (scaled ? "_scaled" : "");
  };
  const float scale = 33.94112549695428f;
  for (TensorType type : weightTypes()) {
    int64_t k = tensorTypeInfo(type).blockValues == 1 ? 35 : 256;
    matrices.emplace_back(type, n, k, 11);
    for (bool scaled : {false, true})
      buildEmbedding(library.module(), kernelName(matrices.back(), scaled),
                     {*layoutFor(type), k, scaled ? scale : 1.0f});
  }
  ASSERT_TRUE(library.load());
  for (const RandomWeights &weights : matrices)
    for (bool scaled : {false, true}) {
      SCOPED_TRACE(kernelName(weights, scaled));
      PackedLayout layout = *layoutFor(weights.type);
      auto *kernel = library.find<EmbeddingFunction>(kernelName(weights, scaled));
      ASSERT_TRUE(kernel);
      GuardedMatrix out(rows, weights.k);
      kernel(ids, weights.packed, out.row(0), 0, 3, out.stride);
      kernel(ids, weights.packed, out.row(0), 3, rows, out.stride);
      EXPECT_TRUE(out.guardsIntact());
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < weights.k; ++column) {
          float value = layout.unpack(weights.packed, weights.k, ids[row], column);
          ASSERT_EQ(out.at(row, column), scaled ? value * scale : value) << row << ", " << column;
        }
    }
}

static QuantizeFunction *buildQuantize(KernelLibrary &library, int64_t k) {
  buildQuantizeRows(library.module(), "quantize", k);
  return library.load() ? library.find<QuantizeFunction>("quantize") : nullptr;
}

TEST_P(RowKernelTest, QuantizeRowsFollowsItsFormula) {
  const int64_t rows = 5, k = 96, stride = k + 3;
  KernelLibrary library(GetParam());
  QuantizeFunction *kernel = buildQuantize(library, k);
  ASSERT_TRUE(kernel);
  Random random(4);
  std::vector<float> in(rows * stride);
  for (float &value : in)
    value = 3 * random.uniform();
  std::fill_n(&in[stride + 32], 32, 0.0f);                                     // a block of zeros
  std::fill_n(&in[2 * stride], 32, 1e-38f);                                    // one too small to be told from zero
  in[3 * stride] = -127, in[3 * stride + 1] = 2.5f, in[3 * stride + 2] = 3.5f; // scale 1: ties go to even
  std::vector<int8_t> codes(rows * k, 99);
  std::vector<float> scales(rows * k / 32, -1);
  std::vector<int32_t> sums(rows * k / 16, -1);
  // Rows outside the slice stay as they are.
  kernel(in.data(), codes.data(), scales.data(), sums.data(), 1, rows, stride);
  EXPECT_TRUE(std::all_of(codes.begin(), codes.begin() + k, [](int8_t code) { return code == 99; }));
  EXPECT_EQ(scales[k / 32 - 1], -1);
  EXPECT_EQ(sums[k / 16 - 1], -1);
  for (int64_t row = 1; row < rows; ++row)
    for (int64_t block = 0; block < k / 32; ++block) {
      const float *values = &in[row * stride + block * 32];
      float largest = 0;
      for (int64_t i = 0; i < 32; ++i)
        largest = std::fmax(largest, std::fabs(values[i]));
      bool visible = largest >= 1e-30f;
      ASSERT_EQ(scales[row * (k / 32) + block], visible ? largest / 127 : 0);
      int32_t sum = 0;
      for (int64_t i = 0; i < 32; ++i) {
        int8_t code = codes[row * k + block * 32 + i];
        ASSERT_EQ(code, visible ? int(std::nearbyint(values[i] * (127 / largest))) : 0) << row << ", " << block;
        sum += code;
        if (i % 16 == 15) {
          ASSERT_EQ(sums[row * (k / 16) + block * 2 + i / 16], sum);
          sum = 0;
        }
      }
    }
  EXPECT_EQ(codes[3 * k], -127);
  EXPECT_EQ(codes[3 * k + 1], 2);
  EXPECT_EQ(codes[3 * k + 2], 4);
}

// A NaN must reach the logits, where it is an error, and not become a number on the way.
TEST_P(RowKernelTest, QuantizeRowsKeepsNaNVisible) {
  KernelLibrary library(GetParam());
  QuantizeFunction *kernel = buildQuantize(library, 32);
  ASSERT_TRUE(kernel);
  for (int64_t position : {0, 7, 16, 31})
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> in(32, 1);
      in[position] = bad;
      std::vector<int8_t> codes(32);
      float scale = 0;
      int32_t sums[2];
      kernel(in.data(), codes.data(), &scale, sums, 0, 1, 32);
      EXPECT_FALSE(std::isfinite(scale)) << position;
    }
}
