// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products that round few rows to 16-bit integers and read many so as well, in f32 or in bf16, beside plain loops over the dequantised weights.

#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "test/execute/RandomWeights.h"

#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using ByRowsFunction = void(const float *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                            const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                            int64_t panelBegin, int64_t panelEnd, void *scratch, const uint16_t *rounded,
                            int64_t roundedStride, int64_t isFixed);

static uint16_t roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

namespace {

// What 16 bits may lose: a step of 2^-15 of the largest of 32 uniform values is 2.4e-10 of their variance; of 2^-14, as words may have, four times
// that. bf16 keeps 8 bits of both.
constexpr double int16Limit = 1e-9, wordLimit = 4e-9, bf16Limit = 5e-5, f32Limit = 1e-10;

struct Parameters {
  std::string target;
  TensorType type;
  bool hasRounded;
};

std::vector<Parameters> allParameters() {
  std::vector<Parameters> all;
  for (const auto &[target, type] : weightTypesOnTargets())
    if (tensorTypeInfo(type).blockValues > 1)
      all.push_back({target, type, false});
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (TensorType type : {TensorType::Q4_0, TensorType::Q4_1, TensorType::Q8_0, TensorType::Q6_K})
      all.push_back({target, type, true});
  return all;
}

// Rows side by side with what must not be multiplied, and the same in bf16.
struct Activations {
  Activations(int64_t rows, int64_t k) : stride(k + 3), roundedStride(k + 6) {
    Random random(77);
    values.assign(rows * stride, std::nanf(""));
    rounded.assign(rows * roundedStride, 0x7fc0);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < k; ++column) {
        float value = values[row * stride + column] = random.uniform();
        rounded[row * roundedStride + column] = roundedToBf16(value);
      }
  }
  int64_t stride, roundedStride;
  std::vector<float> values;
  std::vector<uint16_t> rounded;
};

class MatmulByRowsTest : public testing::TestWithParam<Parameters> {
protected:
  // 35 columns of W, the last panel with 3, and blocks of K whose number no unrolling divides.
  static constexpr int64_t n = 35;

  void SetUp() override {
    auto [target, type, hasRounded] = GetParam();
    k = tensorTypeInfo(type).blockValues == 32 ? 544 : 768;
    library = std::make_unique<KernelLibrary>(target);
    weights = std::make_unique<RandomWeights>(type, n, k, 5);
    MatmulSpec spec{*layoutFor(type), n, k};
    spec.int16FewRows = true;
    spec.hasRounded = hasRounded;
    numPanels = spec.layout.numPanels(n);
    ScheduleAttr schedule = library->matmulSchedule(/*isInStep=*/true, tensorTypeInfo(type).name, k);
    maxRows = schedule.getTile(TileRole::Int16).getMaxRows();
    manyLimit = ScheduleFields::of(schedule).find(TileRole::Words) ? wordLimit : hasRounded ? bf16Limit : f32Limit;
    ASSERT_TRUE(succeeded(buildMatmul(library->module(), "matmul", spec, schedule, library->target())));
    ASSERT_TRUE(library->load());
    ASSERT_TRUE(kernel = library->find<ByRowsFunction>("matmul"));
  }

  GuardedMatrix run(const Activations &act, int64_t row, int64_t rows, bool isFixed) {
    GuardedMatrix out(rows, n);
    for (int64_t begin = 0; begin < numPanels; begin += 2)
      kernel(&act.values[row * act.stride], nullptr, nullptr, weights->packed, nullptr, out.row(0), rows, act.stride,
             out.stride, begin, std::min(begin + 2, numPanels), library->scratch(),
             GetParam().hasRounded ? &act.rounded[row * act.roundedStride] : nullptr, act.roundedStride, isFixed);
    EXPECT_TRUE(out.guardsIntact());
    return out;
  }

  double nmse(const Activations &act, int64_t rows, GuardedMatrix &out) {
    NormalizedError error;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += double(act.values[row * act.stride + i]) * weights->values[column * k + i];
        error.add(out.at(row, column), sum);
      }
    return error.value();
  }

  std::unique_ptr<KernelLibrary> library;
  std::unique_ptr<RandomWeights> weights;
  int64_t k = 0, numPanels = 0, maxRows = 0;
  double manyLimit = 0;
  ByRowsFunction *kernel = nullptr;
};

std::string parameterName(const testing::TestParamInfo<Parameters> &info) {
  std::string name =
      info.param.target + "_" + tensorTypeInfo(info.param.type).name + (info.param.hasRounded ? "_bf16" : "_f32");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, MatmulByRowsTest, testing::ValuesIn(allParameters()), parameterName);

// One test for all, since the kernel is compiled once for it.
TEST_P(MatmulByRowsTest, FewRowsAreRoundedTo16BitsAndManyAsTheTargetMultiplies) {
  constexpr int64_t most = 67;
  Activations act(most, k);
  auto isFew = [&](int64_t rows) { return !maxRows || rows <= maxRows; };
  GuardedMatrix all = run(act, 0, most, false);
  for (int64_t rows : {1, 2, 3, 7, 8, 9, 16, 17, 67}) {
    SCOPED_TRACE("rows " + std::to_string(rows));
    GuardedMatrix out = run(act, 0, rows, false), fixed = run(act, 0, rows, true);
    EXPECT_LE(nmse(act, rows, out), isFew(rows) ? int16Limit : manyLimit);
    EXPECT_LE(nmse(act, rows, fixed), int16Limit);
    // A row has the same bits whatever comes with it.
    for (int64_t row = 0; row < rows; row += 3) {
      GuardedMatrix alone = run(act, row, 1, false);
      EXPECT_EQ(std::memcmp(alone.row(0), fixed.row(row), 4 * n), 0) << "row " << row;
      EXPECT_EQ(std::memcmp((isFew(rows) ? alone.row(0) : all.row(row)), out.row(row), 4 * n), 0) << "row " << row;
    }
  }
}

// Exact integers, then one chain in f32: the same on every target.
TEST(MatmulByRows, BitsOfFewRowsDoNotDependOnTheTarget) {
  constexpr int64_t n = 48, k = 512, rows = 5;
  Activations act(rows, k);
  for (TensorType type : {TensorType::Q4_0, TensorType::Q4_1, TensorType::Q8_0, TensorType::Q6_K}) {
    RandomWeights weights(type, n, k, 3);
    std::vector<float> first;
    for (const std::string &target : KernelLibrary::runnableTargets()) {
      KernelLibrary library(target);
      MatmulSpec spec{*layoutFor(type), n, k};
      spec.int16FewRows = true;
      ASSERT_TRUE(succeeded(buildMatmul(library.module(), "matmul", spec, library.matmulSchedule(), library.target())));
      ASSERT_TRUE(library.load());
      std::vector<float> out(rows * n);
      library.find<ByRowsFunction>("matmul")(act.values.data(), nullptr, nullptr, weights.packed, nullptr, out.data(),
                                             rows, act.stride, n, 0, n / 16, library.scratch(), nullptr, 0,
                                             /*isFixed=*/1);
      if (first.empty())
        first = out;
      EXPECT_EQ(std::memcmp(first.data(), out.data(), 4 * out.size()), 0)
          << tensorTypeInfo(type).name << " on " << target;
    }
  }
}

// The largest codes times the largest integers, whose low bytes are -128 but for the one that sets the scale: sums of 16 bits do not saturate.
TEST(MatmulByRows, TheLargestSumsFit) {
  constexpr int64_t n = 16, k = 512;
  constexpr float integers[] = {127 * 256, 127 * 256 - 128};
  for (TensorType type : {TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_1, TensorType::Q8_0, TensorType::Q2_K,
                          TensorType::Q3_K, TensorType::Q4_K, TensorType::Q5_K, TensorType::Q6_K}) {
    RandomWeights weights(type, n, k, 6, /*codes=*/0xff);
    for (const std::string &target : KernelLibrary::runnableTargets()) {
      SCOPED_TRACE(target + ", " + tensorTypeInfo(type).name);
      KernelLibrary library(target);
      MatmulSpec spec{*layoutFor(type), n, k};
      spec.int16FewRows = true;
      ASSERT_TRUE(succeeded(buildMatmul(library.module(), "matmul", spec, library.matmulSchedule(), library.target())));
      ASSERT_TRUE(library.load());
      for (float sign : {1.0f, -1.0f}) {
        std::vector<float> act(k, sign * integers[1]), out(n);
        for (int64_t i = 0; i < k; i += 32)
          act[i] = sign * integers[0];
        library.find<ByRowsFunction>("matmul")(act.data(), nullptr, nullptr, weights.packed, nullptr, out.data(), 1, k,
                                               n, 0, 1, library.scratch(), nullptr, 0, 0);
        for (int64_t column = 0; column < n; ++column) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < k; ++i) {
            double product = double(act[i]) * weights.values[column * k + i];
            sum += product;
            magnitude += std::fabs(product);
          }
          EXPECT_NEAR(out[column], sum, 1e-5 * magnitude) << "column " << column;
        }
      }
    }
  }
}

} // namespace

TEST(MatmulByRows, RefusesPlainWeights) {
  KernelLibrary library("native");
  MatmulSpec spec{*layoutFor(TensorType::F32), 16, 32};
  spec.int16FewRows = true;
  mlir::ScopedDiagnosticHandler quiet(library.module().getContext(), [](mlir::Diagnostic &) {});
  EXPECT_TRUE(failed(buildMatmul(library.module(), "refused", spec, library.matmulSchedule(), library.target())));
}

//===- results that are rounded ---------------------------------------------===//

using RoundedFunction = void(const float *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                             const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                             int64_t panelBegin, int64_t panelEnd, void *scratch, const uint16_t *rounded,
                             int64_t roundedStride, int64_t isFixed, uint16_t *outRounded, int64_t outRoundedStride);

namespace {

// A product, and the same that rounds many rows where it stores them, for a reader to whom more than `above` are many.
class RoundedResult {
public:
  static constexpr int64_t k = 96, untouched = 0x7fff;

  RoundedResult(const std::string &target, int64_t n, bool isGated)
      : library(target), n(n), weights(TensorType::Q4_0, isGated ? 2 * n : n, k, 5), act(most, k) {
    spec = {*layoutFor(TensorType::Q4_0), n, k};
    spec.int16FewRows = spec.hasRounded = true;
    spec.isGated = isGated;
    spec.epilogue = MatmulEpilogue::Silu;
  }
  int64_t fewRows() { return library.matmulSchedule(true, "q4_0", k).getTile(TileRole::Int16).getMaxRows(); }
  void build(int64_t above) {
    ScheduleAttr schedule = library.matmulSchedule(true, "q4_0", k);
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "plain", spec, schedule, library.target())));
    spec.roundedAbove = above;
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "rounds", spec, schedule, library.target())));
    ASSERT_TRUE(library.load());
    ASSERT_TRUE(plain = library.find<ByRowsFunction>("plain"));
    ASSERT_TRUE(rounds = library.find<RoundedFunction>("rounds"));
  }
  // Of both, whatever a reader of so many rows reads; and that nothing else is written where both call the same rows many.
  void expectSame(int64_t rows, bool isFixed) {
    GuardedMatrix expected(rows, n), out(rows, n);
    int64_t stride = n + 5, panels = (n + 15) / 16;
    std::vector<uint16_t> many(rows * stride, untouched);
    plain(act.values.data(), nullptr, nullptr, weights.packed, nullptr, expected.row(0), rows, act.stride,
          expected.stride, 0, panels, library.scratch(), act.rounded.data(), act.roundedStride, isFixed);
    rounds(act.values.data(), nullptr, nullptr, weights.packed, nullptr, out.row(0), rows, act.stride, out.stride, 0,
           panels, library.scratch(), act.rounded.data(), act.roundedStride, isFixed, many.data(), stride);
    EXPECT_TRUE(out.guardsIntact());
    bool isMany = rows > spec.roundedAbove && !isFixed, isAlone = spec.roundedAbove == fewRows();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < stride; ++column) {
        uint16_t stored = many[row * stride + column];
        if (column < n && isMany)
          EXPECT_EQ(stored, roundedToBf16(expected.at(row, column))) << row << ", " << column;
        else if (column >= n || isAlone)
          EXPECT_EQ(stored, untouched) << row << ", " << column;
        if (column < n && !isMany)
          EXPECT_EQ(out.at(row, column), expected.at(row, column)) << row << ", " << column;
      }
  }
  static constexpr int64_t most = 67;

private:
  KernelLibrary library;
  int64_t n;
  RandomWeights weights;
  Activations act;
  MatmulSpec spec;
  ByRowsFunction *plain = nullptr;
  RoundedFunction *rounds = nullptr;
};

} // namespace

// Rows that few is said of here and there alike, here alone and there alone.
TEST(MatmulByRows, ResultsAreRoundedWhereTheyAreStored) {
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (auto [n, isGated, more] : {std::tuple(64, true, 0), std::tuple(35, false, 3), std::tuple(35, false, -3)}) {
      RoundedResult result(target, n, isGated);
      int64_t few = result.fewRows();
      if (!few)
        continue;
      SCOPED_TRACE(target + ", " + std::to_string(n) + ", above " + std::to_string(few + more));
      ASSERT_NO_FATAL_FAILURE(result.build(few + more));
      for (int64_t rows : {int64_t(1), few - 1, few, few + 1, few + 4, RoundedResult::most})
        for (bool isFixed : {false, true})
          result.expectSame(rows, isFixed);
    }
}

// Where nothing reads it otherwise, the result is bf16 at every number of rows.
TEST(MatmulByRows, ResultsMayBeBf16Alone) {
  constexpr int64_t n = 35, k = 64, most = 40;
  using Rounding =
      void(const uint16_t *act, const float *, const int32_t *, const uint8_t *weights, const float *bias, void *out,
           int64_t rows, int64_t actStride, int64_t outStride, int64_t panelBegin, int64_t panelEnd, void *scratch);
  for (const std::string &target : KernelLibrary::bf16Targets()) {
    SCOPED_TRACE(target);
    KernelLibrary library(target);
    RandomWeights weights(TensorType::BF16, n, k, 5);
    Activations act(most, k);
    MatmulSpec spec{*layoutFor(TensorType::BF16), n, k, MatmulActivation::Bf16};
    ScheduleAttr schedule = library.matmulSchedule(true, "bf16", k);
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "plain", spec, schedule, library.target())));
    spec.isOutRounded = true;
    ASSERT_TRUE(succeeded(buildMatmul(library.module(), "rounds", spec, schedule, library.target())));
    ASSERT_TRUE(library.load());
    for (int64_t rows : {1, 5, 17, 40}) {
      GuardedMatrix expected(rows, n);
      std::vector<uint16_t> out(rows * (n + 1), 0x7fff);
      auto call = [&](const char *name, void *to, int64_t stride) {
        library.find<Rounding>(name)(act.rounded.data(), nullptr, nullptr, weights.packed, nullptr, to, rows,
                                     act.roundedStride, stride, 0, 3, library.scratch());
      };
      call("plain", expected.row(0), expected.stride);
      call("rounds", out.data(), n + 1);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < n; ++column)
          EXPECT_EQ(out[row * (n + 1) + column], roundedToBf16(expected.at(row, column))) << row << ", " << column;
        EXPECT_EQ(out[row * (n + 1) + n], 0x7fff) << row;
      }
    }
  }
}
