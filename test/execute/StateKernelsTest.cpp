// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolution and linear attention over states in pages, beside the formulas in f64 over whole sequences.

#include "test/execute/KernelLibrary.h"
#include "test/execute/StateReference.h"

#include "compiler/codegen/targets/cpu/StateKernels.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

using Conv = void(const float *, const float *, const float *, float *, const heddle_sequence *, int64_t, int64_t,
                  int64_t, int64_t, int32_t, int32_t);
using LinearAttention = void(const float *, const float *, const float *, float *, const float *, const float *,
                             const heddle_sequence *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                             int64_t, int32_t, int32_t);

namespace {

constexpr int64_t stateOffset = 192, numPages = 3;

// The pages of two sequences, with what no kernel may touch before and behind the state.
struct Pages {
  explicit Pages(int64_t stateSize) : size(stateSize) {
    for (std::vector<float> &page : numbers)
      page.assign(size_t(stateOffset / 4 + stateSize + 16), std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < 2 * numPages; ++i)
      addresses[i] = reinterpret_cast<uint8_t *>(numbers[i].data());
  }
  uint8_t *const *of(int64_t sequence) { return addresses + sequence * numPages; }
  bool keepsEdges() const {
    for (const std::vector<float> &page : numbers) {
      for (size_t i = 0; i < page.size(); ++i)
        if ((i < stateOffset / 4 || i >= size_t(stateOffset / 4 + size)) && !std::isnan(page[i]))
          return false;
    }
    return true;
  }
  int64_t size;
  std::vector<float> numbers[2 * numPages];
  uint8_t *addresses[2 * numPages];
};

// Runs `step(sequences, row of each of a step's rows)`.
void forEachStep(const Cuts &cuts, Pages &pages,
                 const std::function<void(const heddle_sequence *, const std::vector<int64_t> &)> &step) {
  int32_t past[2] = {0, 0};
  for (auto [first, second] : cuts) {
    heddle_sequence sequences[] = {{0, first, past[0], 0, pages.of(0)}, {first, second, past[1], 0, pages.of(1)}};
    std::vector<int64_t> rows(first + second);
    std::iota(rows.begin(), rows.begin() + first, past[0]);
    std::iota(rows.begin() + first, rows.end(), firstRows + past[1]);
    step(sequences, rows);
    past[0] += first;
    past[1] += second;
  }
}

//===- convolution --------------------------------------------------------===//

struct ConvRun {
  ConvSpec spec;
  std::vector<float> input, weight, bias;

  explicit ConvRun(const ConvSpec &spec)
      : spec(spec), input(randomFloats(allRows * spec.channels, 2.0f, 1)),
        weight(randomFloats(spec.channels * spec.width, 1.0f, 2)), bias(randomFloats(spec.channels, 1.0f, 3)) {}

  std::vector<double> expected() const {
    std::vector<double> out;
    for (int64_t row = 0; row < allRows; ++row)
      for (int64_t c = 0; c < spec.channels; ++c) {
        int64_t token = row < firstRows ? row : row - firstRows;
        double sum = spec.hasBias ? bias[c] : 0;
        for (int64_t back = 0; back < spec.width && back <= token; ++back)
          sum += double(weight[c * spec.width + spec.width - 1 - back]) * input[(row - back) * spec.channels + c];
        out.push_back(spec.hasSilu ? sum / (1 + std::exp(-sum)) : sum);
      }
    return out;
  }

  std::vector<float> run(KernelLibrary &library, const Cuts &cuts, int32_t threads) const {
    Pages pages((spec.width - 1) * spec.channels);
    std::vector<float> result(allRows * spec.channels);
    int64_t inputStride = spec.channels + 5, outStride = spec.channels + 3;
    forEachStep(cuts, pages, [&](const heddle_sequence *sequences, const std::vector<int64_t> &rows) {
      std::vector<float> x = gather(input, spec.channels, rows, inputStride), out(rows.size() * outStride);
      for (int32_t thread = 0; thread < threads; ++thread)
        library.find<Conv>("conv")(x.data(), weight.data(), spec.hasBias ? bias.data() : nullptr, out.data(), sequences,
                                   2, stateOffset, inputStride, outStride, thread, threads);
      scatter(out, spec.channels, rows, outStride, result);
    });
    EXPECT_TRUE(pages.keepsEdges());
    return result;
  }
};

TEST(RaggedConv, EveryRunnableTarget) {
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (const ConvSpec &spec :
         {ConvSpec{64, 3}, ConvSpec{83, 4, true, true}, ConvSpec{7, 2, true}, ConvSpec{40, 5, false, true}}) {
      SCOPED_TRACE(target + ", " + std::to_string(spec.channels) + " channels");
      KernelLibrary library(target);
      buildRaggedConv(library.module(), "conv", spec, library.target());
      ASSERT_TRUE(library.load());
      ConvRun run(spec);
      std::vector<float> result = run.run(library, whole, 1);
      EXPECT_LT(errorOf(result, run.expected()), 1e-12);
      EXPECT_EQ(result, run.run(library, whole, 3));
      EXPECT_EQ(result, run.run(library, cut, 2));
    }
}

//===- linear attention ---------------------------------------------------===//

struct LinearAttentionRun : LinearAttentionRows {
  using LinearAttentionRows::LinearAttentionRows;

  std::vector<float> run(KernelLibrary &library, const Cuts &cuts, int32_t threads) const {
    Pages pages(spec.numHeads * spec.keyDim * spec.valueDim);
    std::vector<float> result(allRows * values);
    int64_t gap = 3;
    forEachStep(cuts, pages, [&](const heddle_sequence *sequences, const std::vector<int64_t> &rows) {
      auto of = [&](const std::vector<float> &from, int64_t width) { return gather(from, width, rows, width + gap); };
      std::vector<float> q = of(query, keys), k = of(key, keys), v = of(value, values),
                         g = of(decay, spec.decayWidth()), b = of(beta, spec.numHeads),
                         out(rows.size() * (values + gap));
      for (int32_t thread = 0; thread < threads; ++thread)
        library.find<LinearAttention>("attention")(
            q.data(), k.data(), v.data(), out.data(), spec.hasDecay ? g.data() : nullptr,
            spec.hasBeta ? b.data() : nullptr, sequences, 2, stateOffset, keys + gap, keys + gap, values + gap,
            values + gap, spec.decayWidth() + gap, spec.numHeads + gap, thread, threads);
      scatter(out, values, rows, values + gap, result);
    });
    EXPECT_TRUE(pages.keepsEdges());
    return result;
  }
};

TEST(RaggedLinearAttention, EveryRunnableTarget) {
  std::map<std::string, std::vector<float>> ofSpecs; // whatever the target
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (const LinearAttentionSpec &spec :
         {LinearAttentionSpec{4, 2, 16, 64, true, true, 0.25}, LinearAttentionSpec{3, 1, 13, 37, true, false, 1.0},
          LinearAttentionSpec{2, 2, 7, 5, false, true, 0.5}, LinearAttentionSpec{2, 1, 9, 33, false, false, 0.01},
          LinearAttentionSpec{2, 2, 32, 64, true, true, 0.5, true},
          LinearAttentionSpec{4, 2, 37, 19, true, true, 1.0, true},
          LinearAttentionSpec{37, 1, 16, 1, true, false, 1.0, true},
          LinearAttentionSpec{6, 3, 21, 1, true, true, 0.5, true}, LinearAttentionSpec{20, 2, 5, 1, true, true, 1.0},
          LinearAttentionSpec{2, 1, 200, 1, false, false, 0.1}}) {
      SCOPED_TRACE(target + ", " + std::to_string(spec.keyDim) + " x " + std::to_string(spec.valueDim));
      KernelLibrary library(target);
      buildRaggedLinearAttention(library.module(), "attention", spec, library.target());
      ASSERT_TRUE(library.load());
      LinearAttentionRun run(spec);
      std::vector<float> result = run.run(library, whole, 1);
      EXPECT_LT(errorOf(result, run.expected()), 1e-11);
      EXPECT_EQ(result, run.run(library, whole, 5));
      EXPECT_EQ(result, run.run(library, cut, 2));
      std::string name =
          std::to_string(spec.numHeads) + "," + std::to_string(spec.keyDim) + "," + std::to_string(spec.valueDim);
      EXPECT_EQ(result, ofSpecs.try_emplace(name, result).first->second);
    }
}

} // namespace
