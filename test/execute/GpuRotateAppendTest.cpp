// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotated queries, and the cache's rows of a step, against loops over what the pages hold.
#include "compiler/codegen/targets/cuda/RotateAppend.h"
#include "test/execute/HeadStep.h"

#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

void run(const GpuKernel &kernel, const RotateAppendSpec &spec, HeadStep &step, bool swapsPlanes = false) {
  ptx::Memory memory;
  step.allow(memory);
  const float *input = step.input.data(), *table = step.table.data(), *queryNorm = step.queryNorm.data(),
              *keyNorm = step.keyNorm.data();
  float *out = step.out.data() + step.outStride;
  uint8_t *pages = step.pages.data();
  const int32_t *at = step.positions, *pagesOf = step.pageTable, *sequences = step.rowSequence,
                *slots = step.cachePositions;
  int64_t kOffset = swapsPlanes ? step.valueOffset : step.keyOffset,
          vOffset = swapsPlanes ? step.keyOffset : step.valueOffset;
  ptx::Launch launch;
  launch.blocks[0] = uint32_t(spec.numAllHeads());
  launch.blocks[1] = uint32_t(HeadStep::numRows);
  launch.threads[0] = uint32_t(warpSize);
  kernel.run(launch,
             {&input, &step.inputStride, &out, &at, &table, &pages, &pagesOf, &sequences, &slots, &queryNorm, &keyNorm,
              &kOffset, &vOffset, &step.pageStride, &step.outStride, &step.pagesPerSequence},
             memory, ptx::WarpOrder::Descending);
}

GpuKernel kernelOf(const RotateAppendSpec &spec) {
  std::string error;
  EXPECT_TRUE(succeeded(verifyGpuRotateAppend(spec, error))) << error;
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuRotateAppend(module, "rotate", spec); });
}

// Products and sums are rounded one by one, as the reference rounds them: the bits are the same.
bool leavesWhatItShould(const RotateAppendSpec &spec, const RotateAppendSpec &built, bool swapsPlanes = false) {
  HeadStep expected(spec), step(spec);
  fillHeads(spec, expected);
  run(kernelOf(built), built, step, swapsPlanes);
  return step.out == expected.out && step.pages == expected.pages;
}

TEST(GpuRotateAppend, EveryPairing) {
  for (bool isInterleaved : {false, true})
    for (KvType kv : {KvType::BF16, KvType::F16, KvType::F32})
      for (auto [headDim, rotaryDim, offset] :
           {std::tuple(16, 16, 0), {64, 64, 0}, {128, 128, 0}, {80, 32, 0}, {22, 10, 3}, {256, 64, 192}, {18, 6, 12}}) {
        SCOPED_TRACE("head_dim " + std::to_string(headDim) + ", rotary_dim " + std::to_string(rotaryDim));
        RotateAppendSpec spec = rotateAppendSpec(headDim, rotaryDim, offset, isInterleaved, kv);
        EXPECT_TRUE(leavesWhatItShould(spec, spec));
      }
}

// Numbers of the cache, f32.
std::vector<float> cachedNumbers(const HeadStep &step) {
  std::vector<float> numbers(step.pages.size() / 4);
  std::memcpy(numbers.data(), step.pages.data(), numbers.size() * 4);
  return numbers;
}

double largestDifference(const std::vector<float> &a, const std::vector<float> &b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(double(a[i]) - b[i]));
  return largest;
}

// The sum of a norm has an order of its own.
TEST(GpuRotateAppend, NormsOfHeads) {
  for (double weightOffset : {0.0, 1.0})
    for (auto [headDim, rotaryDim, offset] :
         {std::tuple(16, 16, 0), {64, 64, 0}, {80, 32, 8}, {128, 128, 0}, {256, 256, 0}}) {
      SCOPED_TRACE("head_dim " + std::to_string(headDim));
      RotateAppendSpec spec = rotateAppendSpec(headDim, rotaryDim, offset, false, KvType::F32);
      spec.heads = {/*hasNorm=*/true, /*eps=*/1e-6, weightOffset};
      HeadStep expected(spec), step(spec);
      fillHeads(spec, expected);
      run(kernelOf(spec), spec, step);
      EXPECT_LT(largestDifference(step.out, expected.out), 1e-5);
      EXPECT_LT(largestDifference(cachedNumbers(step), cachedNumbers(expected)), 1e-5);
    }
}

TEST(GpuRotateAppend, WrongPairsAndSwappedPlanesAreSeen) {
  RotateAppendSpec spec = rotateAppendSpec(32, 32);
  EXPECT_FALSE(leavesWhatItShould(spec, rotateAppendSpec(32, 32, 0, /*isInterleaved=*/true)));
  EXPECT_FALSE(leavesWhatItShould(spec, rotateAppendSpec(32, 30)));
  EXPECT_FALSE(leavesWhatItShould(spec, spec, /*swapsPlanes=*/true));
}

TEST(GpuRotateAppend, RefusesWhatItDoesNotStore) {
  auto messageFor = [](const RotateAppendSpec &spec) {
    std::string error;
    EXPECT_TRUE(failed(verifyGpuRotateAppend(spec, error)));
    return error;
  };
  EXPECT_EQ(messageFor(rotateAppendSpec(16, 16, 0, false, KvType::Q8_0)), "for caches of codes");
  EXPECT_EQ(messageFor(rotateAppendSpec(17, 16)), "for heads of an odd width (17)");
}

} // namespace
