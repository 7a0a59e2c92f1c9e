// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products give the same bits whatever target they are compiled for; AArch64's run under qemu-aarch64.

#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "test/execute/ForeignProgram.h"
#include "test/execute/RandomWeights.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace heddle;
using namespace heddle::test;

using MatmulFunction = void(const void *, const float *, const int32_t *, const uint8_t *, const float *, float *,
                            int64_t, int64_t, int64_t, int64_t, int64_t, void *);

namespace {

struct Product {
  MatmulSpec spec;
  int64_t rows;
  RandomWeights weights;
  std::vector<uint8_t> operands[5]; // act, scales, sums, weights, bias

  Product(TensorType type, MatmulActivation activation)
      : spec{*layoutFor(type), 37, 256, activation, /*hasBias=*/true}, rows(9), weights(type, spec.n, spec.k, 21) {
    Random random(5);
    auto append = [&](int operand, auto value) {
      auto *bytes = reinterpret_cast<uint8_t *>(&value);
      operands[operand].insert(operands[operand].end(), bytes, bytes + sizeof value);
    };
    for (int64_t i = 0; i < rows * spec.k; ++i)
      activation == MatmulActivation::F32 ? append(0, random.uniform())
                                          : append(0, int8_t(int(random.bits() % 255) - 127));
    if (activation == MatmulActivation::Q8) {
      for (int64_t i = 0; i < rows * spec.k; i += 32)
        append(1, 0.01f * random.uniform());
      for (int64_t i = 0; i < rows * spec.k; i += 16) {
        int32_t sum = 0;
        for (int64_t j = 0; j < 16; ++j)
          sum += int8_t(operands[0][i + j]);
        append(2, sum);
      }
    }
    operands[3].assign(weights.packed, weights.packed + spec.layout.bytes(spec.n, spec.k));
    for (int64_t i = 0; i < spec.n; ++i)
      append(4, random.uniform());
  }

  std::vector<float> runHere(const std::string &target = "native") {
    KernelLibrary library(target);
    std::vector<float> out(rows * spec.n);
    if (failed(buildMatmul(library.module(), "kernel", spec, library.matmulSchedule(), library.target())) ||
        !library.load())
      return {};
    auto as = [&](int operand) { return reinterpret_cast<const float *>(operands[operand].data()); };
    library.find<MatmulFunction>("kernel")(operands[0].data(), as(1), (const int32_t *)as(2), weights.packed, as(4),
                                           out.data(), rows, spec.k, spec.n, 0, spec.layout.numPanels(spec.n),
                                           library.scratch());
    return out;
  }

  std::string input() const {
    std::vector<int64_t> header = {rows, spec.n, spec.layout.numPanels(spec.n)};
    for (const std::vector<uint8_t> &operand : operands)
      header.push_back(operand.size());
    std::string bytes(reinterpret_cast<char *>(header.data()), 8 * header.size());
    for (const std::vector<uint8_t> &operand : operands)
      bytes.append(operand.begin(), operand.end());
    return bytes;
  }

  // Empty, with the reason printed, if a step failed.
  std::vector<float> runThere(const char *target) {
    KernelLibrary library(target);
    if (failed(buildMatmul(library.module(), "kernel", spec, library.matmulSchedule(), library.target())))
      return {};
    std::optional<std::string> object = library.compile(), out;
    if (object)
      out = runOnAArch64(HEDDLE_SOURCE_DIR "/test/execute/foreign-driver.c", HEDDLE_SOURCE_DIR, *object, input());
    std::vector<float> values(out ? out->size() / 4 : 0);
    if (out)
      std::memcpy(values.data(), out->data(), values.size() * 4);
    return values;
  }
};

class ForeignMatmulTest : public testing::TestWithParam<std::pair<TensorType, MatmulActivation>> {};

std::string parameterName(const testing::TestParamInfo<std::pair<TensorType, MatmulActivation>> &info) {
  return std::string(tensorTypeInfo(info.param.first).name) +
         (info.param.second == MatmulActivation::Q8 ? "_q8" : "_f32");
}

constexpr auto f32 = MatmulActivation::F32, q8 = MatmulActivation::Q8;
INSTANTIATE_TEST_SUITE_P(Formats, ForeignMatmulTest,
                         testing::Values(std::pair(TensorType::F32, f32), std::pair(TensorType::F16, f32),
                                         std::pair(TensorType::BF16, f32), std::pair(TensorType::Q4_1, f32),
                                         std::pair(TensorType::Q6_K, f32), std::pair(TensorType::Q4_0, q8),
                                         std::pair(TensorType::Q4_1, q8), std::pair(TensorType::Q8_0, q8),
                                         std::pair(TensorType::Q2_K, q8), std::pair(TensorType::Q6_K, q8)),
                         parameterName);

} // namespace

TEST_P(ForeignMatmulTest, EveryX86LevelGivesTheSameBits) {
  Product product(GetParam().first, GetParam().second);
  std::vector<float> native = product.runHere();
  ASSERT_FALSE(native.empty());
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    std::vector<float> out = product.runHere(target);
    ASSERT_EQ(out.size(), native.size()) << target;
    EXPECT_EQ(std::memcmp(out.data(), native.data(), 4 * out.size()), 0) << target;
  }
}

TEST_P(ForeignMatmulTest, AArch64GivesTheSameBits) {
  if (std::string missing = missingForAArch64(); !missing.empty())
    GTEST_SKIP() << "needs " << missing;
  Product product(GetParam().first, GetParam().second);
  std::vector<float> here = product.runHere();
  ASSERT_FALSE(here.empty());
  // Products of bytes by smull, by sdot, and with codes of 8 bits by usdot.
  for (const char *target : {"cortex-a72", "aarch64", "neoverse-v1"}) {
    std::vector<float> there = product.runThere(target);
    ASSERT_EQ(here.size(), there.size()) << target;
    EXPECT_EQ(std::memcmp(here.data(), there.data(), 4 * here.size()), 0) << target;
  }
}
