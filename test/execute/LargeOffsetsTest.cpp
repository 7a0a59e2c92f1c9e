// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guards the index arithmetic of kernels over tables and matrices of more than 2^28, 2^31 and 2^32 bytes: rows of an embedding,
// panels of a head, activations and results whose rows lie gigabytes apart, products of a graph. Memory is reserved, and only the
// panels and rows that a kernel touches are real.

#include "compiler/codegen/targets/cpu/Contraction.h"
#include "compiler/codegen/targets/cpu/Dequantize.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/codegen/targets/cpu/QuantizeKernel.h"
#include "test/execute/RandomWeights.h"
#include "test/execute/SparseMemory.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace heddle;
using namespace heddle::test;

namespace {

using EmbeddingFunction = void(const int32_t *ids, const uint8_t *weights, float *out, int64_t rowBegin, int64_t rowEnd,
                               int64_t outStride);
using MatmulFunction = void(const void *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                            const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                            int64_t panelBegin, int64_t panelEnd, void *scratch);
using QuantizeFunction = void(const float *in, int8_t *codes, float *scales, int32_t *sums, int64_t rowBegin,
                              int64_t rowEnd, int64_t inStride);
using ContractionFunction = void(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                                 int64_t aRow, int64_t aColumn, int64_t bRow, int64_t bColumn, int64_t cRow,
                                 const int64_t *outer, int64_t numOuter, int32_t thread, int32_t numThreads);

constexpr int64_t lanes = PackedLayout::panelRows;

// Rows whose first bytes are this far apart reach beyond 2^32 with the fifth of them.
constexpr int64_t farBytes = (int64_t(1) << 30) + 4096, rows = 6, farStride = farBytes / 4;

class LargeOffsets : public testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(Types, LargeOffsets,
                         testing::Values(TensorType::F32, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_K),
                         [](const auto &info) { return std::string(tensorTypeInfo(info.param).name); });

// The panels of a table around each border, all others zero.
struct FarPanels {
  FarPanels(TensorType type, int64_t k)
      : layout(*layoutFor(type)), near(type, lanes, k, 5), bytes(layout.panelBytes(k)), memory(borders[2] + 4 * bytes) {
    for (int64_t border : borders)
      for (int64_t panel : {border / bytes - 1, border / bytes, border / bytes + 1}) {
        std::memcpy(memory.at<uint8_t>(panel * bytes), near.packed, bytes);
        panels.push_back(panel);
      }
  }

  PackedLayout layout;
  RandomWeights near; // one panel
  int64_t bytes;      // of a panel
  SparseMemory memory;
  std::vector<int64_t> panels;
};

TEST_P(LargeOffsets, embeddingReadsRowsOfALargeTable) {
  const int64_t k = 2048;
  FarPanels table(GetParam(), k);
  KernelLibrary library("native");
  buildEmbedding(library.module(), "embed", {table.layout, k, 1.0f});
  ASSERT_TRUE(library.load());
  SparseMemory out(rows * farBytes);
  for (size_t first = 0; first < table.panels.size(); first += 3) {
    int32_t ids[rows];
    for (int64_t row = 0; row < rows; ++row)
      ids[row] = int32_t(table.panels[first + row % 3] * lanes + 5 * row % lanes);
    library.find<EmbeddingFunction>("embed")(ids, table.memory.at<uint8_t>(), out.at<float>(), 0, rows, farStride);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < k; ++column)
        ASSERT_EQ(*out.at<float>(row * farBytes + 4 * column),
                  table.layout.unpack(table.near.packed, k, ids[row] % lanes, column))
            << row << ", " << column;
  }
}

TEST_P(LargeOffsets, matmulReadsPanelsOfALargeMatrix) {
  const int64_t k = 256;
  FarPanels matrix(GetParam(), k);
  int64_t numPanels = matrix.panels.back() + 1;
  for (MatmulActivation activation : {MatmulActivation::F32, MatmulActivation::Bf16, MatmulActivation::Q8}) {
    bool isQuantized = matrix.layout.isQuantized(), isBf16 = activation == MatmulActivation::Bf16;
    if ((activation == MatmulActivation::Q8 && !isQuantized) || (isBf16 && GetParam() == TensorType::F32))
      continue;
    SCOPED_TRACE(int(activation));
    KernelLibrary library("native");
    MatmulSpec nearSpec{matrix.layout, lanes, k, activation}, farSpec = nearSpec;
    farSpec.n = numPanels * lanes - 3; // the last panel is masked
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "near", nearSpec, library.matmulSchedule(), library.target())));
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "far", farSpec, library.matmulSchedule(), library.target())));
    buildQuantizeRows(library.module(), "quantize", k);
    ASSERT_TRUE(library.load());
    // Rows of activations, near each other and far apart.
    int64_t element = activation == MatmulActivation::F32 ? 4 : isBf16 ? 2 : 1;
    std::vector<float> values(rows * k), scales(rows * k / 32);
    std::vector<int32_t> sums(rows * k / 16);
    std::vector<int8_t> codes(rows * k);
    Random random(3);
    for (float &value : values)
      value = random.uniform();
    library.find<QuantizeFunction>("quantize")(values.data(), codes.data(), scales.data(), sums.data(), 0, rows, k);
    std::vector<uint16_t> halves(rows * k);
    for (int64_t i = 0; i < rows * k; ++i)
      std::memcpy(&halves[i], reinterpret_cast<const char *>(&values[i]) + 2, 2);
    const void *act = activation == MatmulActivation::F32 ? (const void *)values.data()
                      : isBf16                            ? (const void *)halves.data()
                                                          : codes.data();
    SparseMemory farAct(rows * farBytes), out((rows + 1) * farBytes);
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(farAct.at<uint8_t>(row * farBytes), static_cast<const uint8_t *>(act) + row * k * element,
                  k * element);
    std::vector<float> expected(rows * lanes);
    library.find<MatmulFunction>("near")(act, scales.data(), sums.data(), matrix.near.packed, nullptr, expected.data(),
                                         rows, k, lanes, 0, 1, library.scratch());
    for (int64_t panel : matrix.panels) {
      library.find<MatmulFunction>("far")(farAct.at<void>(), scales.data(), sums.data(), matrix.memory.at<uint8_t>(),
                                          nullptr, out.at<float>(), rows, farBytes / element, farStride, panel,
                                          panel + 1, library.scratch());
      int64_t columns = std::min(lanes, farSpec.n - panel * lanes);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column)
          ASSERT_EQ(*out.at<float>(row * farBytes + 4 * (panel * lanes + column)), expected[row * lanes + column])
              << "panel " << panel << ", row " << row << ", column " << column;
    }
  }
}

TEST(LargeStrides, quantizeReadsRowsFarApart) {
  const int64_t k = 64;
  KernelLibrary library("native");
  buildQuantizeRows(library.module(), "quantize", k);
  ASSERT_TRUE(library.load());
  SparseMemory in(rows * farBytes);
  std::vector<int8_t> codes(rows * k);
  std::vector<float> scales(rows * k / 32);
  std::vector<int32_t> sums(rows * k / 16);
  for (int64_t row = 0; row < rows; ++row)
    *in.at<float>(row * farBytes) = float(row + 1) * 127;
  library.find<QuantizeFunction>("quantize")(in.at<float>(), codes.data(), scales.data(), sums.data(), 0, rows,
                                             farStride);
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_EQ(scales[row * k / 32], float(row + 1)) << row;
    EXPECT_EQ(codes[row * k], 127) << row;
  }
}

// c (m, n) += a (m, k) b (k, n), each row gigabytes from the next, and the second of two such products as far from the first.
TEST(LargeStrides, productOfAGraph) {
  const int64_t m = 5, n = 20, k = 3, outer = 2;
  KernelLibrary library("native");
  buildContraction(library.module(), "contraction", library.matmulSchedule());
  ASSERT_TRUE(library.load());
  SparseMemory a((outer + m + k) * farBytes), b((outer + k) * farBytes), c((outer + m) * farBytes);
  auto at = [](const SparseMemory &memory, int64_t o, int64_t row, int64_t column) -> float & {
    return *memory.at<float>((o + row) * farBytes + 4 * (column + 64 * o));
  };
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t d = 0; d < k; ++d)
        at(a, o, i, d) = float(i + 2 * d + 3 * o);
    for (int64_t d = 0; d < k; ++d)
      for (int64_t j = 0; j < n; ++j)
        at(b, o, d, j) = float(j - d + o);
  }
  const int64_t outerLoop[] = {outer, farStride + 64, farStride + 64, farStride + 64};
  library.find<ContractionFunction>("contraction")(a.at<float>(), b.at<float>(), c.at<float>(), m, n, k, farStride, 1,
                                                   farStride, 1, farStride, outerLoop, 1, 0, 1);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t d = 0; d < k; ++d)
          sum += float(i + 2 * d + 3 * o) * float(j - d + o);
        ASSERT_EQ(at(c, o, i, j), sum) << o << ", " << i << ", " << j;
      }
}

} // namespace
