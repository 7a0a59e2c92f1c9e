// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention over states in the pages of a device, beside the formula in f64 over whole sequences.
#include "compiler/codegen/targets/cuda/RaggedLinearAttention.h"
#include "runtime/model/ModelAbi.h"
#include "test/execute/GpuKernel.h"
#include "test/execute/StateReference.h"

#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

class LinearAttentionSteps : LinearAttentionRows {
public:
  using LinearAttentionRows::expected;
  using LinearAttentionRows::LinearAttentionRows;

  std::vector<float> run(const GpuKernel &kernel, const Cuts &cuts, ptx::WarpOrder order = ptx::WarpOrder::Descending) {
    pages.assign(numPages * pageStride / 4, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> result(allRows * values);
    int32_t past[2] = {0, 0};
    for (auto [first, second] : cuts) {
      std::vector<int64_t> rows;
      std::vector<int32_t> positions;
      for (int32_t i = 0; i < first; ++i)
        rows.push_back(past[0] + i), positions.push_back(past[0] + i);
      for (int32_t i = 0; i < second; ++i)
        rows.push_back(firstRows + past[1] + i), positions.push_back(past[1] + i);
      runStep(kernel, {0, first, first, second}, rows, positions, order, result);
      past[0] += first, past[1] += second;
    }
    return result;
  }

  // Whether nothing but states of the sequences' pages was written.
  bool keepsEdges() const {
    int64_t size = spec.numHeads * spec.keyDim * spec.valueDim;
    for (int64_t page = 0; page < numPages; ++page)
      for (int64_t i = 0; i < pageStride / 4; ++i) {
        bool isState = page != unused && i >= stateOffset / 4 && i < stateOffset / 4 + size;
        if (!isState && !std::isnan(pages[page * pageStride / 4 + i]))
          return false;
      }
    return true;
  }

private:
  static constexpr int64_t numPages = 5, unused = 2, stateOffset = 192, gap = 3;
  // Pages of the two sequences, in no order.
  const int32_t pagesPerSequence = 2, pageTable[4] = {3, 1, 4, 0};
  const int64_t pageStride = stateOffset + 4 * (spec.numHeads * spec.keyDim * spec.valueDim + 16);

  void runStep(const GpuKernel &kernel, const std::vector<int32_t> &sequenceRows, const std::vector<int64_t> &rows,
               const std::vector<int32_t> &positions, ptx::WarpOrder order, std::vector<float> &result) {
    auto of = [&](const std::vector<float> &from, int64_t width) { return gather(from, width, rows, width + gap); };
    std::vector<float> q = of(query, keys), k = of(key, keys), v = of(value, values), g = of(decay, spec.decayWidth()),
                       b = of(beta, spec.numHeads), out(rows.size() * (values + gap), canary);
    ptx::Memory memory;
    using Access = ptx::Memory::Access;
    for (const std::vector<float> *numbers : {&q, &k, &v, &g, &b})
      memory.allow(numbers->data(), numbers->size() * 4, Access::Read);
    for (const std::vector<int32_t> *numbers : {&sequenceRows, &positions})
      memory.allow(numbers->data(), numbers->size() * 4, Access::Read);
    memory.allow(pageTable, sizeof pageTable, Access::Read);
    memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
    memory.allow(pages.data(), pages.size() * 4, Access::ReadWrite);
    const float *from[] = {q.data(), k.data(), v.data(), spec.hasDecay ? g.data() : nullptr,
                           spec.hasBeta ? b.data() : nullptr};
    float *to = out.data(), *cache = pages.data();
    const int32_t *table = pageTable, *ofSequences = sequenceRows.data(), *places = positions.data();
    int64_t keyStride = keys + gap, valueStride = values + gap, headStride = spec.numHeads + gap,
            decayStride = spec.decayWidth() + gap;
    ptx::Launch launch;
    launch.blocks[0] = uint32_t(llvm::divideCeil(spec.valueDim, gpuStateColumns(spec)));
    launch.blocks[1] = uint32_t(spec.numHeads);
    launch.blocks[2] = 2;
    launch.threads[0] = uint32_t(gpuStateThreads);
    kernel.run(launch,
               {&from[0], &from[1], &from[2], &to, &from[3], &from[4], &cache, &table, &ofSequences, &places,
                &keyStride, &keyStride, &valueStride, &valueStride, &decayStride, &headStride, &stateOffset,
                &pageStride, &pagesPerSequence},
               memory, order);
    for (size_t row = 0; row < rows.size(); ++row)
      for (int64_t i = values; i < values + gap; ++i)
        EXPECT_EQ(out[row * (values + gap) + i], canary);
    scatter(out, values, rows, values + gap, result);
  }

  std::vector<float> pages;
};

GpuKernel kernelOf(const LinearAttentionSpec &spec) {
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuLinearAttention(module, "attention", spec); });
}

// Keys of one lane, of several, of fewer columns than lanes have room for.
const LinearAttentionSpec specs[] = {{4, 2, 16, 64, true, true, 0.25},      {3, 1, 45, 37, true, false, 1.0},
                                     {2, 2, 130, 5, false, true, 0.5},      {2, 1, 256, 33, false, false, 0.01},
                                     {1, 1, 1024, 3, true, true, 1.0},      {2, 2, 64, 64, true, true, 0.5, true},
                                     {4, 2, 45, 3, true, false, 1.0, true}, {5, 1, 16, 1, true, false, 1.0, true}};

TEST(GpuLinearAttention, IsTheFormulaHoweverStepsAreCut) {
  for (const LinearAttentionSpec &spec : specs) {
    SCOPED_TRACE(std::to_string(spec.keyDim) + " x " + std::to_string(spec.valueDim));
    GpuKernel kernel = kernelOf(spec);
    LinearAttentionSteps steps(spec);
    std::vector<float> result = steps.run(kernel, whole);
    EXPECT_LT(errorOf(result, steps.expected()), 1e-11);
    EXPECT_TRUE(steps.keepsEdges());
    EXPECT_EQ(result, steps.run(kernel, cut, ptx::WarpOrder::Ascending));
    EXPECT_TRUE(steps.keepsEdges());
  }
}

TEST(GpuLinearAttention, WhatADifferentFormulaLeavesIsSeen) {
  LinearAttentionSpec spec = specs[0];
  LinearAttentionSteps steps(spec);
  std::vector<double> expected = steps.expected();
  for (bool LinearAttentionSpec::*part : {&LinearAttentionSpec::hasDecay, &LinearAttentionSpec::hasBeta}) {
    LinearAttentionSpec other = spec;
    other.*part = false;
    EXPECT_GT(errorOf(steps.run(kernelOf(other), whole), expected), 1e-3);
  }
}

} // namespace
