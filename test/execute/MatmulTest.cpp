// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products of every weight format, target and row count, beside plain loops over the dequantised weights.

#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "test/execute/RandomWeights.h"

#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using MatmulFunction = void(const void *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                            const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                            int64_t panelBegin, int64_t panelEnd, void *scratch);

namespace {

float roundToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Activations (rows, k), as f32, as bf16, and as int8 with what the kernel wants beside them.
struct Activations {
  Activations(int64_t rows, int64_t k, MatmulActivation kind)
      : rows(rows), k(k), kind(kind), stride(kind == MatmulActivation::Q8 ? k + 16 : k + 3) {
    Random random(77);
    // Beside the rows lies what must not be multiplied, not even by zero.
    values.assign(rows * stride, std::nanf(""));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < k; ++column)
        values[row * stride + column] = random.uniform();
    if (kind == MatmulActivation::Q8)
      quantize();
    if (kind == MatmulActivation::Bf16)
      round();
  }
  void round() {
    for (float &value : values) {
      uint32_t bits;
      value = roundToBf16(value);
      std::memcpy(&bits, &value, 4);
      halves.push_back(uint16_t(bits >> 16));
    }
  }
  void quantize() {
    codes.resize(rows * stride);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t block = 0; block < k / 32; ++block) {
        float largest = 0;
        for (int64_t i = 0; i < 32; ++i)
          largest = std::fmax(largest, std::fabs(values[row * stride + block * 32 + i]));
        scales.push_back(largest / 127);
        int32_t sum = 0;
        for (int64_t i = 0; i < 32; ++i) {
          int64_t at = row * stride + block * 32 + i;
          codes[at] = int8_t(std::nearbyint(values[at] / scales.back()));
          sum += codes[at];
          if (i % 16 == 15) {
            sums.push_back(sum);
            sum = 0;
          }
        }
      }
  }
  // The value that the product is to be computed with.
  double at(int64_t row, int64_t column) const {
    if (kind != MatmulActivation::Q8)
      return values[row * stride + column];
    return double(codes[row * stride + column]) * scales[row * (k / 32) + column / 32];
  }

  const void *rowAt(int64_t row) const {
    int64_t first = row * stride;
    switch (kind) {
    case MatmulActivation::F32:
      return &values[first];
    case MatmulActivation::Bf16:
      return &halves[first];
    case MatmulActivation::Q8:
      return &codes[first];
    }
    return nullptr;
  }

  int64_t rows, k;
  MatmulActivation kind;
  int64_t stride;
  std::vector<float> values;
  std::vector<uint16_t> halves;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

struct Case {
  std::string name;
  MatmulSpec spec;
  RandomWeights weights;
  std::vector<float> bias;
  MatmulFunction *kernel = nullptr;
  void *scratch = nullptr;

  void run(const Activations &act, int64_t row, int64_t rows, GuardedMatrix &out, int64_t begin, int64_t end) const {
    bool q8 = act.kind == MatmulActivation::Q8;
    kernel(act.rowAt(row), q8 ? &act.scales[row * (act.k / 32)] : nullptr, q8 ? &act.sums[row * (act.k / 16)] : nullptr,
           weights.packed, spec.hasBias ? bias.data() : nullptr, out.row(row), rows, act.stride, out.stride, begin, end,
           scratch);
  }
};

constexpr float residual = 0.25f;

GuardedMatrix freshOutput(int64_t rows, int64_t n) {
  GuardedMatrix out(rows, n);
  for (int64_t row = 0; row < rows; ++row)
    std::fill_n(out.row(row), n, residual);
  return out;
}

// `weights` (n, k)
double nmse(const Case &test, const std::vector<float> &weights, const Activations &act, GuardedMatrix &out,
            int64_t rows) {
  NormalizedError error;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < test.spec.n; ++n) {
      double sum = (test.spec.hasBias ? test.bias[n] : 0) + (test.spec.accumulate ? residual : 0);
      for (int64_t k = 0; k < test.spec.k; ++k)
        sum += act.at(row, k) * weights[n * test.spec.k + k];
      error.add(out.at(row, n), sum);
    }
  return error.value();
}

// The weights that the kernel multiplies: what is stored, which for bf16 products is rounded.
std::vector<float> multiplied(const Case &test) {
  std::vector<float> weights = test.weights.values;
  if (test.spec.activation == MatmulActivation::Bf16)
    for (int64_t i = 0; i < int64_t(weights.size()); ++i)
      weights[i] =
          roundToBf16(test.spec.layout.unpack(test.weights.packed, test.spec.k, i / test.spec.k, i % test.spec.k));
  return weights;
}

struct Parameters {
  std::string target;
  TensorType type;
  MatmulActivation activation;
};

std::vector<Parameters> allParameters() {
  std::vector<Parameters> all;
  for (const auto &[target, type] : weightTypesOnTargets())
    for (MatmulActivation activation : {MatmulActivation::F32, MatmulActivation::Q8})
      if (activation == MatmulActivation::F32 || tensorTypeInfo(type).blockValues > 1)
        all.push_back({target, type, activation});
  // One format of each way to unpack; native, which may lack the instruction, and the targets that have it.
  std::vector<std::string> bf16Targets = KernelLibrary::bf16Targets();
  bf16Targets.push_back("native");
  for (const std::string &target : bf16Targets)
    for (TensorType type : {TensorType::BF16, TensorType::Q4_1, TensorType::Q6_K})
      all.push_back({target, type, MatmulActivation::Bf16});
  for (const std::string &target : KernelLibrary::int8TileTargets())
    for (TensorType type : {TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_1, TensorType::Q2_K, TensorType::Q6_K})
      all.push_back({target, type, MatmulActivation::Q8});
  return all;
}

// Columns of a step of the loop over K, of a tile and of a block are straddled.
std::vector<int64_t> depths(TensorType type, MatmulActivation activation) {
  if (int64_t block = tensorTypeInfo(type).blockValues; block != 1)
    return block == 32 ? std::vector<int64_t>{32, 96, 544} : std::vector<int64_t>{256, 512, 768};
  return activation == MatmulActivation::Bf16 ? std::vector<int64_t>{2, 70, 556} : std::vector<int64_t>{1, 35, 300};
}

class MatmulTest : public testing::TestWithParam<Parameters> {
protected:
  void SetUp() override {
    auto [target, type, activation] = GetParam();
    library = std::make_unique<KernelLibrary>(target);
    int64_t i = 0;
    // Whole panels, one and a part, several and a part, a part alone.
    std::vector<int64_t> columns = {48, 17, 100, 1};
    if (isNightly())
      llvm::append_range(columns, std::vector<int64_t>{15, 16, 1, 48, 17, 100, 15, 16});
    for (int64_t n : columns) {
      int64_t k = depths(type, activation)[i % 3];
      MatmulSpec spec{*layoutFor(type), n, k, activation, /*hasBias=*/i % 2 == 1, /*accumulate=*/i % 4 >= 2};
      std::string name = "matmul_" + std::to_string(i) + "_" + std::to_string(n) + "_" + std::to_string(k);
      cases.push_back({name, spec, RandomWeights(type, n, k, i), {}});
      Random random(i++);
      for (int64_t column = 0; column < n; ++column)
        cases.back().bias.push_back(random.uniform());
      ASSERT_TRUE(succeeded(buildMatmul(library->module(), name, spec, library->matmulSchedule(), library->target())));
    }
    ASSERT_TRUE(library->load());
    for (Case &test : cases) {
      ASSERT_TRUE(test.kernel = library->find<MatmulFunction>(test.name));
      test.scratch = library->scratch();
    }
  }

  void expectAgreesWithPlainLoops();
  void expectBitsDependOnNeitherRowsNorSlices();
  std::unique_ptr<KernelLibrary> library;
  std::vector<Case> cases;
};

std::string parameterName(const testing::TestParamInfo<Parameters> &info) {
  std::string name = info.param.target + "_" + tensorTypeInfo(info.param.type).name +
                     (info.param.activation == MatmulActivation::Q8     ? "_q8"
                      : info.param.activation == MatmulActivation::Bf16 ? "_bf16"
                                                                        : "_f32");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, MatmulTest, testing::ValuesIn(allParameters()), parameterName);

void MatmulTest::expectAgreesWithPlainLoops() {
  for (const Case &test : cases) {
    std::vector<float> weights = multiplied(test);
    for (int64_t rows : {1, 2, 3, 5, 16, 17, 33, 128, 259}) {
      SCOPED_TRACE(test.name + ", rows " + std::to_string(rows));
      Activations act(rows, test.spec.k, test.spec.activation);
      GuardedMatrix out = freshOutput(rows, test.spec.n);
      test.run(act, 0, rows, out, 0, test.spec.layout.numPanels(test.spec.n));
      EXPECT_LE(nmse(test, weights, act, out, rows), 1e-10);
      if (rows == 259) {
        EXPECT_LE(nmse(test, test.weights.values, act, out, rows), 5e-5); // rounded or not
      }
      EXPECT_TRUE(out.guardsIntact());
    }
  }
}

void MatmulTest::expectBitsDependOnNeitherRowsNorSlices() {
  const int64_t rows = 33;
  for (const Case &test : cases) {
    SCOPED_TRACE(test.name);
    int64_t panels = test.spec.layout.numPanels(test.spec.n);
    Activations act(rows, test.spec.k, test.spec.activation);
    GuardedMatrix whole = freshOutput(rows, test.spec.n);
    test.run(act, 0, rows, whole, 0, panels);
    auto expectSame = [&](GuardedMatrix &out) {
      EXPECT_TRUE(out.guardsIntact());
      for (int64_t row = 0; row < rows; ++row)
        ASSERT_EQ(std::memcmp(out.row(row), whole.row(row), 4 * test.spec.n), 0) << "row " << row;
    };
    for (int64_t height : {1, 2, 3, 4, 7, 20}) {
      GuardedMatrix out = freshOutput(rows, test.spec.n);
      for (int64_t row = 0; row < rows; row += height)
        test.run(act, row, std::min(height, rows - row), out, 0, panels);
      expectSame(out);
    }
    for (int64_t split = 0; split <= panels; ++split) {
      GuardedMatrix out = freshOutput(rows, test.spec.n);
      test.run(act, 0, rows, out, 0, split);
      test.run(act, 0, rows, out, split, panels);
      expectSame(out);
    }
  }
}

// More rows, columns of W and columns of K than a tile unit's products take at a time, and a rest of each; sums in scratch memory or on the
// stack.
TEST(Matmul, ManyRowsOfManyPanelsAgreeWithOne) {
  const int64_t n = 300, k = 1088, rows = 530;
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (auto [type, isInStep] :
         {std::pair(TensorType::Q4_0, true), std::pair(TensorType::BF16, true), std::pair(TensorType::BF16, false)}) {
      SCOPED_TRACE(target + " " + tensorTypeInfo(type).name + (isInStep ? "" : " on the stack"));
      KernelLibrary library(target);
      MatmulSpec spec{*layoutFor(type), n, k, MatmulActivation::Bf16};
      ASSERT_TRUE(
          succeeded(buildMatmul(library.module(), "matmul", spec, library.matmulSchedule(isInStep), library.target())));
      ASSERT_TRUE(library.load());
      Case test{"matmul", spec, RandomWeights(type, n, k, 5), {}};
      test.kernel = library.find<MatmulFunction>("matmul");
      test.scratch = isInStep ? library.scratch() : nullptr;
      Activations act(rows, k, MatmulActivation::Bf16);
      GuardedMatrix all = freshOutput(rows, n), alone = freshOutput(rows, n);
      test.run(act, 0, rows, all, 0, spec.layout.numPanels(n));
      EXPECT_LE(nmse(test, multiplied(test), act, all, rows), 1e-10);
      EXPECT_TRUE(all.guardsIntact());
      for (int64_t row : {0, 31, 32, 511, 512, 529}) {
        test.run(act, row, 1, alone, 0, 3);
        test.run(act, row, 1, alone, 3, spec.layout.numPanels(n));
        EXPECT_EQ(std::memcmp(all.row(row), alone.row(row), 4 * n), 0) << "row " << row;
      }
    }
}

// One test for both, since the kernels are compiled once for it.
TEST_P(MatmulTest, AgreesWithPlainLoopsInEverySlice) {
  expectAgreesWithPlainLoops();
  expectBitsDependOnNeitherRowsNorSlices();
}

} // namespace

TEST(Matmul, RefusesBf16ActivationsThatFitNoPairs) {
  KernelLibrary library("native");
  mlir::ScopedDiagnosticHandler quiet(library.module().getContext(), [](mlir::Diagnostic &) {});
  for (auto [type, k] :
       {std::pair(TensorType::F32, 32), std::pair(TensorType::F16, 32), std::pair(TensorType::BF16, 33)}) {
    MatmulSpec spec{*layoutFor(type), 16, k, MatmulActivation::Bf16};
    EXPECT_TRUE(failed(buildMatmul(library.module(), "refused", spec, library.matmulSchedule(), library.target())));
  }
}

TEST(Matmul, RefusesInt8ActivationsWithPlainWeights) {
  KernelLibrary library("native");
  MatmulSpec spec{*layoutFor(TensorType::F32), 16, 32, MatmulActivation::Q8};
  mlir::ScopedDiagnosticHandler quiet(library.module().getContext(), [](mlir::Diagnostic &) {});
  EXPECT_TRUE(failed(buildMatmul(library.module(), "refused", spec, library.matmulSchedule(), library.target())));
}
