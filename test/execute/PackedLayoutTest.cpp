// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights hold exactly what the file says, wherever they came from.

#include "compiler/weights/PackedLayout.h"
#include "bytes/Sha256.h"
#include "bytes/Text.h"
#include "compiler/weights/BlockCodes.h"
#include "frontends/IntegerBlocks.h"
#include "test/execute/RandomWeights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

class PackedLayoutTest : public testing::TestWithParam<TensorType> {};

static std::string typeName(const testing::TestParamInfo<TensorType> &info) {
  return tensorTypeInfo(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Types, PackedLayoutTest, testing::ValuesIn(weightTypes()), typeName);

// With a min, scale * code + min may be rounded once here and twice by the plain formula.
static double tolerance(const PackedLayout &layout, float scaleOfValues) {
  return layout.hasMin ? 1.2e-7 * scaleOfValues : 0;
}

TEST_P(PackedLayoutTest, UnpackGivesWhatTheFileHolds) {
  for (int64_t n : {1, 16, 37}) {
    RandomWeights weights(GetParam(), n, 512, n);
    PackedLayout layout = *layoutFor(GetParam());
    float largest = 0;
    for (float value : weights.values)
      largest = std::max(largest, std::fabs(value));
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < weights.k; ++column)
        ASSERT_NEAR(layout.unpack(weights.packed, weights.k, row, column), weights.values[row * weights.k + column],
                    tolerance(layout, largest))
            << row << ", " << column;
  }
}

TEST_P(PackedLayoutTest, BlockSizesAreThoseOfTheReaders) {
  if (const BlockFormat *format = findBlockFormat(GetParam())) {
    EXPECT_EQ(format->blockValues, tensorTypeInfo(GetParam()).blockValues);
    EXPECT_EQ(format->blockBytes, tensorTypeInfo(GetParam()).blockBytes);
    EXPECT_EQ(format->blockValues % format->layout.block, 0);
  }
}

// Codes, or what they stand for, stay within maxCode: kernels choose instructions that saturate above it.
TEST_P(PackedLayoutTest, CodesStayWithinTheirBound) {
  const BlockFormat *format = findBlockFormat(GetParam());
  if (!format)
    return;
  RandomWeights weights(GetParam(), 64, 512, 5);
  BlockCodes codes;
  int largest = 0;
  for (size_t at = 0; at < weights.stored.size(); at += format->blockBytes) {
    format->decode(&weights.stored[at], codes);
    for (int64_t i = 0; i < format->blockValues; ++i) {
      const int8_t *entries = entriesOf(format->layout.book);
      largest = std::max(largest, entries ? entries[codes.codes[i]] + format->layout.zero : codes.codes[i]);
    }
  }
  EXPECT_LE(largest, format->layout.maxCode);
}

// A matrix whose stored rows are parts of wider ones: rows of W, or its columns.
TEST(PackedLayout, StridedRowsAreThoseOfTheWiderMatrix) {
  const int64_t rows = 6, columns = 5, wide = 11, begin = 4;
  for (bool transposed : {false, true}) {
    std::vector<float> stored((transposed ? columns : rows) * wide);
    for (size_t i = 0; i < stored.size(); ++i)
      stored[i] = float(i);
    WeightSource source{reinterpret_cast<const uint8_t *>(&stored[begin]), rows, transposed, wide};
    PackedLayout layout = *layoutFor(TensorType::F32);
    std::vector<uint8_t> packed(layout.bytes(rows, columns));
    packPanels(TensorType::F32, {source}, columns, 0, layout.numPanels(rows), packed.data());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        ASSERT_EQ(layout.unpack(packed.data(), columns, row, column),
                  float(transposed ? column * wide + begin + row : row * wide + begin + column))
            << row << ", " << column << ", " << transposed;
  }
}

TEST_P(PackedLayoutTest, StackedMatricesFollowEachOther) {
  const int64_t k = 256, rows[] = {5, 20, 18};
  RandomWeights whole(GetParam(), 43, k, 3);
  PackedLayout layout = *layoutFor(GetParam());
  std::vector<WeightSource> sources;
  const uint8_t *data = whole.stored.data();
  for (int64_t count : rows) {
    sources.push_back({data, count, false});
    data += whole.stored.size() / 43 * count;
  }
  std::vector<uint8_t> packed(layout.bytes(43, k));
  for (int64_t panel = 0; panel < layout.numPanels(43); ++panel)
    packPanels(GetParam(), sources, k, panel, panel + 1, packed.data() + panel * layout.panelBytes(k));
  EXPECT_EQ(std::memcmp(packed.data(), whole.packed, packed.size()), 0);
}

TEST(PackedLayout, TransposedSourcesPackLikeTheirTransposes) {
  for (TensorType type : {TensorType::F32, TensorType::F16, TensorType::BF16}) {
    const int64_t n = 19, k = 33, width = tensorTypeInfo(type).blockBytes;
    RandomWeights weights(type, n, k, 9);
    std::vector<uint8_t> turned(weights.stored.size());
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column)
        std::memcpy(&turned[(column * n + row) * width], &weights.stored[(row * k + column) * width], width);
    PackedLayout layout = *layoutFor(type);
    std::vector<uint8_t> packed(layout.bytes(n, k));
    packPanels(type, {{turned.data(), n, true}}, k, 0, layout.numPanels(n), packed.data());
    EXPECT_EQ(std::memcmp(packed.data(), weights.packed, packed.size()), 0) << tensorTypeInfo(type).name;
  }
}

// Codes of two to four bits take more than the indices of points, or the signs, that they are in a file.
TEST_P(PackedLayoutTest, NoFormatTakesMuchMoreThanItsFile) {
  const TensorTypeInfo &info = tensorTypeInfo(GetParam());
  double inFile = double(info.blockBytes) / info.blockValues, packed = double(layoutFor(GetParam())->bytes(16, 4096));
  bool isSpelledOut = integerScaleShift(GetParam()) && GetParam() != TensorType::TQ2_0;
  double times = GetParam() == TensorType::Q1_0 ? 2.3 : isSpelledOut ? 2.1 : 1.1;
  EXPECT_LE(packed / (16 * 4096), isSpelledOut ? std::min(times * inFile, 0.55) : times * inFile);
}

// What is packed by one version must stay equal: sidecars of it are taken as they are.
TEST(PackedLayout, BytesAreThoseOfTheVersion) {
  std::string all, ofIntegers, later,
      last; // those of integers came when there was a version 2, NVFP4's later, Q1_0's last
  for (TensorType type : weightTypes()) {
    RandomWeights weights(type, 37, 512, 11);
    PackedLayout layout = *layoutFor(type);
    (type == TensorType::E2M1_F16 ? later
     : type == TensorType::Q1_0   ? last
     : integerScaleShift(type)    ? ofIntegers
                                  : all)
        .append(reinterpret_cast<const char *>(weights.packed), layout.bytes(37, 512));
  }
  EXPECT_EQ(PackedLayout::version, 2);
  auto digest = [](const std::string &bytes) { return hexadecimal(sha256(bytes.data(), bytes.size()).data(), 8); };
  EXPECT_EQ(digest(all), "325474af3aaddef9") << "raise PackedLayout::version";
  EXPECT_EQ(digest(ofIntegers), "5476113ad7767292") << "raise PackedLayout::version";
  EXPECT_EQ(digest(later), "7919c975c495a7cd") << "raise PackedLayout::version";
  EXPECT_EQ(digest(last), "fc7423c19ee005a6") << "raise PackedLayout::version";
}

TEST(PackedLayout, TypesThatAreNoWeightsHaveNone) {
  EXPECT_FALSE(layoutFor(TensorType::I32));
  EXPECT_FALSE(layoutFor(TensorType::Bool));
}
