// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with an activation, alone or gated, beside the formula in f64.

#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "test/execute/Activated.h"
#include "test/execute/RandomWeights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using MatmulFunction = void(const void *act, const float *actScales, const int32_t *actSums, const uint8_t *weights,
                            const float *bias, float *out, int64_t rows, int64_t actStride, int64_t outStride,
                            int64_t panelBegin, int64_t panelEnd, void *scratch);

static double gated(const MatmulSpec &spec, double gate, double up) {
  const GatingSpec &gating = spec.gating;
  if (gating.limit == 0)
    return activated(spec.epilogue, gate) * up;
  double limit = gating.limit, alpha = gating.alpha;
  up = std::max(std::min(up, limit), -limit);
  return activated(spec.epilogue, alpha * std::min(gate, limit)) / alpha * (up + gating.offset);
}

static std::vector<float> randomFloats(int64_t count) {
  Random random(77);
  std::vector<float> values(count);
  for (float &value : values)
    value = random.uniform();
  return values;
}

namespace {

// int8 activations (rows, k) and what they stand for; as bf16, the codes.
struct Activations {
  Activations(int64_t rows, int64_t k) : k(k), codes(rows * k), scales(rows * k / 32), sums(rows * k / 16) {
    Random random(15);
    for (float &scale : scales)
      scale = 0.01f + 0.005f * random.uniform();
    for (int64_t i = 0; i < rows * k; ++i) {
      codes[i] = int8_t(int(random.bits() % 255) - 127);
      sums[i / 16] += codes[i];
      values.push_back(codes[i] * scales[i / 32]);
      float whole = codes[i];
      uint32_t bits;
      std::memcpy(&bits, &whole, 4);
      halves.push_back(uint16_t(bits >> 16));
    }
  }
  int64_t k;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> values;
  std::vector<uint16_t> halves;
};

class EpilogueTest : public testing::TestWithParam<std::string> {
public:
  static constexpr int64_t n = 37, k = 64, rows = 19;

  static void expectFormula(const std::string &target, const MatmulSpec &spec, TensorType type);
};

std::string targetName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Targets, EpilogueTest, testing::ValuesIn(KernelLibrary::runnableTargets()), targetName);

void EpilogueTest::expectFormula(const std::string &target, const MatmulSpec &spec, TensorType type) {
  KernelLibrary library(target);
  ASSERT_TRUE(succeeded(buildMatmul(library.module(), "kernel", spec, library.matmulSchedule(), library.target())) &&
              library.load());
  auto *kernel = library.find<MatmulFunction>("kernel");
  // Rows in turn are one matrix; else the up projection's are another.
  const int64_t n = spec.n, step = spec.alternates ? 2 : 1;
  RandomWeights gate(type, step * n, k, 31), up(type, n, k, 32);
  std::vector<WeightSource> sources = {{gate.stored.data(), step * n, false}};
  if (spec.isGated && !spec.alternates)
    sources.push_back({up.stored.data(), n, false});
  const float *upValues = spec.alternates ? gate.values.data() + k : up.values.data();
  int64_t panels = spec.layout.numPanels(n), stored = panels * (spec.isGated ? 2 : 1);
  std::vector<uint8_t> packed(stored * spec.layout.panelBytes(k));
  packPanels(type, sources, k, 0, stored, packed.data(), PanelOrder::Interleaved);
  // Nothing may be read behind the last one.
  std::vector<float> biases = randomFloats((spec.isGated ? 2 : 1) * n);
  const float *upBiases = biases.data() + (spec.alternates ? 1 : n);
  Activations act(rows, k);
  bool q8 = spec.activation == MatmulActivation::Q8, bf16 = spec.activation == MatmulActivation::Bf16;
  auto run = [&](int64_t row, int64_t count, GuardedMatrix &out, int64_t begin, int64_t end) {
    const void *from = q8     ? (const void *)&act.codes[row * k]
                       : bf16 ? (const void *)&act.halves[row * k]
                              : &act.values[row * k];
    kernel(from, &act.scales[row * k / 32], &act.sums[row * k / 16], packed.data(), biases.data(), out.row(row), count,
           k, out.stride, begin, end, library.scratch());
  };
  GuardedMatrix whole(rows, n), slices(rows, n);
  run(0, rows, whole, 0, panels);
  for (int64_t row = 0; row < rows; ++row) {
    run(row, 1, slices, 0, 1);
    run(row, 1, slices, 1, panels);
  }
  EXPECT_TRUE(whole.guardsIntact() && slices.guardsIntact());
  NormalizedError error;
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_EQ(std::memcmp(whole.row(row), slices.row(row), 4 * n), 0) << row;
    for (int64_t column = 0; column < n; ++column) {
      double gateSum = spec.hasBias ? biases[step * column] : 0;
      double upSum = spec.hasBias && spec.isGated ? upBiases[step * column] : 0;
      for (int64_t i = 0; i < k; ++i) {
        double x = bf16 ? act.codes[row * k + i]
                   : q8 ? act.codes[row * k + i] * double(act.scales[(row * k + i) / 32])
                        : act.values[row * k + i];
        gateSum += x * gate.values[step * column * k + i];
        upSum += spec.isGated ? x * upValues[step * column * k + i] : 0;
      }
      error.add(whole.at(row, column), spec.isGated ? gated(spec, gateSum, upSum) : activated(spec.epilogue, gateSum));
    }
  }
  EXPECT_LE(error.value(), 1e-10);
}

} // namespace

TEST_P(EpilogueTest, ActivationsFollowTheirFormulas) {
  for (TensorType type : {TensorType::F32, TensorType::Q4_1, TensorType::Q8_0})
    for (int kind = 0; kind < 14; ++kind)
      for (MatmulActivation activation : {MatmulActivation::F32, MatmulActivation::Q8}) {
        if (type == TensorType::F32 && activation == MatmulActivation::Q8)
          continue;
        SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + ", epilogue " + std::to_string(kind));
        MatmulSpec spec{*layoutFor(type), n, k, activation};
        spec.epilogue = MatmulEpilogue(1 + kind / 2); // behind None
        spec.isGated = kind % 2;
        expectFormula(GetParam(), spec, type);
      }
}

TEST(Epilogue, ActivationsOfBf16ProductsFollowTheirFormulas) {
  for (const std::string &target : KernelLibrary::bf16Targets())
    for (bool isGated : {false, true}) {
      SCOPED_TRACE(target + (isGated ? ", gated" : ""));
      MatmulSpec spec{*layoutFor(TensorType::BF16), EpilogueTest::n, EpilogueTest::k, MatmulActivation::Bf16};
      spec.epilogue = isGated ? MatmulEpilogue::Silu : MatmulEpilogue::GeluTanh;
      spec.isGated = isGated;
      EpilogueTest::expectFormula(target, spec, TensorType::BF16);
    }
}

TEST(Epilogue, ActivationsOfProductsOnInt8TilesFollowTheirFormulas) {
  for (const std::string &target : KernelLibrary::int8TileTargets())
    for (TensorType type : {TensorType::Q4_1, TensorType::Q8_0})
      for (bool isGated : {false, true}) {
        SCOPED_TRACE(target + ", " + tensorTypeInfo(type).name + (isGated ? ", gated" : ""));
        MatmulSpec spec{*layoutFor(type), EpilogueTest::n, EpilogueTest::k, MatmulActivation::Q8};
        spec.epilogue = isGated ? MatmulEpilogue::Silu : MatmulEpilogue::GeluTanh;
        spec.isGated = isGated;
        EpilogueTest::expectFormula(target, spec, type);
      }
}

TEST_P(EpilogueTest, BiasesOfGatesAndUps) {
  for (TensorType type : {TensorType::F32, TensorType::Q8_0})
    for (MatmulActivation activation : {MatmulActivation::F32, MatmulActivation::Q8})
      for (bool alternates : {false, true}) {
        if (type == TensorType::F32 && activation == MatmulActivation::Q8)
          continue;
        SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + (alternates ? ", in turn" : ""));
        MatmulSpec spec{*layoutFor(type), alternates ? 48 : n, k, activation};
        spec.hasBias = spec.isGated = true;
        spec.alternates = alternates;
        spec.epilogue = MatmulEpilogue::Silu;
        expectFormula(GetParam(), spec, type);
        spec.gating = {1.5f, 1.702f, 1.0f};
        expectFormula(GetParam(), spec, type);
        spec.hasBias = false;
        expectFormula(GetParam(), spec, type);
      }
}

TEST(Epilogue, GatesInTurnOnTiles) {
  for (const std::string &target : KernelLibrary::bf16Targets()) {
    MatmulSpec spec{*layoutFor(TensorType::BF16), 48, EpilogueTest::k, MatmulActivation::Bf16};
    spec.epilogue = MatmulEpilogue::Silu;
    spec.hasBias = spec.isGated = spec.alternates = true;
    spec.gating = {700.0f, 1.702f, 1.0f};
    SCOPED_TRACE(target);
    EpilogueTest::expectFormula(target, spec, TensorType::BF16);
  }
}
