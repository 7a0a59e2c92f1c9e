// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers converted to another type, against what PyPI gguf and numpy make of the same numbers (test/models/quantized/make.py).

#include "compiler/weights/Quantize.h"
#include "compiler/weights/PackedLayout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

using namespace heddle;

static std::string readData(const std::string &name) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/test/unit/data/quantization/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Eight rows of 256.
static std::vector<float> givenNumbers() {
  std::string bytes = readData("quantized.f32");
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(numbers.size(), 2048u);
  return numbers;
}

static size_t bytesOf(TensorType type, size_t count) {
  return count / tensorTypeInfo(type).blockValues * tensorTypeInfo(type).blockBytes;
}

static std::string converted(TensorType type, const std::vector<float> &numbers) {
  std::string out(bytesOf(type, numbers.size()), '\0');
  EXPECT_TRUE(convertRow(type, numbers.data(), numbers.size(), reinterpret_cast<uint8_t *>(out.data())));
  return out;
}

TEST(Quantize, GivesTheBytesOfTheReference) {
  for (TensorType type : {TensorType::Q8_0, TensorType::Q4_0, TensorType::BF16, TensorType::F16}) {
    std::string name = tensorTypeInfo(type).name, expected = readData("quantized." + name);
    EXPECT_EQ(converted(type, givenNumbers()), expected) << name;
  }
}

// Rounding from the least to the greatest number of a block is a Q4_K, too: what make.py prints. The search finds a better one.
TEST(Quantize, Q4_KIsCloserThanRoundingFromEndToEnd) {
  const double ofRounding[8] = {3.862e-3, 2.100e-2, 4.068e-3, 1.209e-1, 0, 1.156e-5, 3.006e-2, 2.885e-2};
  std::vector<float> numbers = givenNumbers(), after(numbers.size());
  std::string blocks = converted(TensorType::Q4_K, numbers);
  dequantize(TensorType::Q4_K, reinterpret_cast<const uint8_t *>(blocks.data()), numbers.size(), after.data());
  double sum = 0, sumOfRounding = 0;
  for (int row = 0; row < 8; ++row) {
    ConversionLoss loss;
    loss.add(numbers.data() + 256 * row, after.data() + 256 * row, 256);
    double rms = std::sqrt(loss.differences / 256);
    EXPECT_LE(rms, 1.01 * ofRounding[row]) << row;
    sum += row == 4 ? 0 : rms / ofRounding[row];
    sumOfRounding += row == 4 ? 0 : 1;
  }
  EXPECT_LT(sum, 0.93 * sumOfRounding);
}

TEST(Quantize, LossIsOfTheNumbersThatWereGiven) {
  const float before[] = {3, -4, 0}, after[] = {3, -3.5, 0};
  ConversionLoss loss, all;
  loss.add(before, after, 3);
  EXPECT_DOUBLE_EQ(loss.relative(), 0.1);
  EXPECT_DOUBLE_EQ(loss.largest, 0.5);
  all.add(loss);
  all.add(loss);
  EXPECT_DOUBLE_EQ(all.relative(), 0.1);
  EXPECT_EQ(ConversionLoss().relative(), 0);
}

TEST(Quantize, RefusesWhatTheTypeDoesNotHold) {
  auto fits = [](TensorType type, float number) {
    std::vector<float> numbers(256, 0.5f);
    numbers[100] = number;
    std::vector<uint8_t> out(1024);
    return convertRow(type, numbers.data(), numbers.size(), out.data());
  };
  EXPECT_TRUE(fits(TensorType::F16, 65504) && fits(TensorType::BF16, 3e38f) && fits(TensorType::F16, 65519));
  EXPECT_FALSE(fits(TensorType::F16, 65520));
  EXPECT_FALSE(fits(TensorType::BF16, 3.4e38f));
  EXPECT_TRUE(fits(TensorType::Q8_0, 8.3e6f) && fits(TensorType::Q4_0, 5.2e5f) && fits(TensorType::Q4_K, 6e7f));
  EXPECT_FALSE(fits(TensorType::Q8_0, 8.4e6f));
  EXPECT_FALSE(fits(TensorType::Q4_0, 5.3e5f));
  EXPECT_FALSE(fits(TensorType::Q4_K, 6.5e7f));
  for (TensorType type : {TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_K})
    for (float number : {NAN, INFINITY, -INFINITY})
      EXPECT_FALSE(fits(type, number)) << tensorTypeInfo(type).name;
}

// Numbers so small that scales are subnormal or 0 as f16 (of Q4_K below 2e-6), and blocks of one number: what comes back is near.
TEST(Quantize, SmallAndEqualNumbersStayNear) {
  for (TensorType type : {TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_K})
    for (float number : {1e-44f, 1e-38f, 1e-20f, 1e-7f, 1e-5f, 0.75f, -0.75f, -1e-5f}) {
      std::vector<float> numbers(256, number), after(256);
      std::string blocks = converted(type, numbers);
      dequantize(type, reinterpret_cast<const uint8_t *>(blocks.data()), 256, after.data());
      for (float value : after)
        EXPECT_NEAR(value, number, 0.005 * std::fabs(number) + 1.2e-5) << tensorTypeInfo(type).name;
    }
}

// What packing converts is what the file would hold quantised, in panels: of rows one after the other, with others between, transposed, and
// beside a matrix that has the type already.
TEST(Quantize, PanelsAreThoseOfAQuantizedFile) {
  constexpr int64_t n = 37, k = 256;
  std::vector<float> numbers(n * k);
  for (int64_t i = 0; i < n * k; ++i)
    numbers[i] = float((i * 7919 + i / k) % 1013) / 500 - 1;
  for (TensorType type : {TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_K, TensorType::BF16}) {
    std::string quantized = converted(type, numbers);
    PackedLayout layout = *layoutFor(type);
    auto pack = [&](const std::vector<WeightSource> &sources, ConversionLoss *loss = nullptr) {
      std::vector<uint8_t> out(layout.bytes(n, k));
      packPanels(type, sources, k, 0, layout.numPanels(n), out.data(), PanelOrder::Stacked, loss);
      return out;
    };
    const auto *stored = reinterpret_cast<const uint8_t *>(quantized.data());
    std::vector<uint8_t> expected = pack({{stored, n}});

    std::vector<float> turned(n * k), apart(n * (k + 5));
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column) {
        turned[column * n + row] = numbers[row * k + column];
        apart[row * (k + 5) + column] = numbers[row * k + column];
      }
    auto bytes = [](const std::vector<float> &values) { return reinterpret_cast<const uint8_t *>(values.data()); };
    ConversionLoss loss;
    EXPECT_EQ(pack({{bytes(numbers), n, false, 0, TensorType::F32}}, &loss), expected) << tensorTypeInfo(type).name;
    EXPECT_EQ(loss.from, TensorType::F32);
    EXPECT_GT(loss.relative(), 1e-4);
    EXPECT_EQ(pack({{bytes(turned), n, true, 0, TensorType::F32}}), expected) << tensorTypeInfo(type).name;
    EXPECT_EQ(pack({{bytes(apart), n, false, k + 5, TensorType::F32}}), expected) << tensorTypeInfo(type).name;
    EXPECT_EQ(pack({{stored, 11}, {bytes(numbers) + 11 * k * sizeof(float), n - 11, false, 0, TensorType::F32}}),
              expected)
        << tensorTypeInfo(type).name;

    // The same numbers where they are read as numbers, along the stored rows and across them.
    std::vector<float> rounded(n * k), along(n * k), across(n * k);
    dequantize(type, stored, n * k, rounded.data());
    readNumbers(type, TensorType::F32, /*acrossRows=*/false, bytes(numbers), n, k, 0, along.data());
    readNumbers(type, TensorType::F32, /*acrossRows=*/true, bytes(turned), k, n, 0, across.data());
    EXPECT_EQ(along, rounded);
    for (int64_t i = 0; i < n * k; ++i)
      ASSERT_EQ(across[i % k * n + i / k], rounded[i]);
  }
}
