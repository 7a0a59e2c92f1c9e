// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotated queries, and the cache's rows of a step, against loops over what the pages hold.
#include "compiler/codegen/targets/cuda/RotateAppend.h"
#include "runtime/model/ModelAbi.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuKernel.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr int64_t tokens = HEDDLE_KV_PAGE_SIZE, context = 96, pagesPerSequence = 2, numPages = 4, keyOffset = 64;
constexpr int64_t numRows = 5;
// Two sequences, of which the first crosses a page; their pages lie in no order. Angles are of other places than slots.
const int32_t rowSequence[numRows] = {0, 0, 0, 1, 1}, cachePositions[numRows] = {62, 63, 64, 0, 1};
const int32_t positions[numRows] = {70, 71, 72, 3, 4}, pageTable[2 * pagesPerSequence] = {3, 1, 0, 2};

struct Step {
  explicit Step(const RotateAppendSpec &spec)
      : kvBytes(spec.kv == KvType::F32 ? 4 : 2), planeBytes(spec.numKvHeads * tokens * spec.headDim * kvBytes),
        valueOffset(keyOffset + planeBytes + 32), pageStride(valueOffset + planeBytes + 32),
        inputStride(spec.heads() * spec.headDim + 6), outStride(spec.numHeads * spec.headDim + 2) {
    input = randomFloats(numRows * inputStride, 1.0f, 1);
    table = randomFloats(context * spec.rotaryDim, 1.0f, 2);
    out.assign((numRows + 2) * outStride, canary);
    pages.assign(numPages * pageStride, 0xa5);
  }

  int64_t kvBytes, planeBytes, valueOffset, pageStride, inputStride, outStride;
  std::vector<float> input, table, out;
  std::vector<uint8_t> pages;
};

// A head of a row, rotated.
std::vector<float> rotated(const RotateAppendSpec &spec, const Step &step, int64_t row, int64_t head) {
  const float *x = &step.input[row * step.inputStride + head * spec.headDim];
  std::vector<float> result(x, x + spec.headDim);
  int64_t half = spec.rotaryDim / 2;
  const float *angles = &step.table[positions[row] * spec.rotaryDim];
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = spec.offset + (spec.isInterleaved ? 2 * i : i), second = first + (spec.isInterleaved ? 1 : half);
    result[first] = x[first] * angles[i] - x[second] * angles[half + i];
    result[second] = x[second] * angles[i] + x[first] * angles[half + i];
  }
  return result;
}

// What the kernel should leave.
void fill(const RotateAppendSpec &spec, Step &step) {
  for (int64_t row = 0; row < numRows; ++row)
    for (int64_t head = 0; head < spec.heads(); ++head) {
      int64_t kvHead = (head - spec.numHeads) % spec.numKvHeads;
      bool isQuery = head < spec.numHeads, isValue = head >= spec.numHeads + spec.numKvHeads;
      const float *given = &step.input[row * step.inputStride + head * spec.headDim];
      std::vector<float> numbers =
          isValue ? std::vector<float>(given, given + spec.headDim) : rotated(spec, step, row, head);
      if (isQuery) {
        std::copy(numbers.begin(), numbers.end(), &step.out[(row + 1) * step.outStride + head * spec.headDim]);
        continue;
      }
      int64_t position = cachePositions[row];
      int64_t page = pageTable[rowSequence[row] * pagesPerSequence + position / tokens];
      uint8_t *to = &step.pages[page * step.pageStride + (isValue ? step.valueOffset : keyOffset) +
                                (kvHead * tokens + position % tokens) * spec.headDim * step.kvBytes];
      for (int64_t d = 0; d < spec.headDim; ++d) {
        uint16_t bits = bf16BitsOf(numbers[d]);
        std::memcpy(to + d * step.kvBytes, step.kvBytes == 2 ? static_cast<void *>(&bits) : &numbers[d], step.kvBytes);
      }
    }
}

void run(const GpuKernel &kernel, const RotateAppendSpec &spec, Step &step, int64_t kOffset, int64_t vOffset,
         ptx::WarpOrder order = ptx::WarpOrder::Descending) {
  ptx::Memory memory;
  using Access = ptx::Memory::Access;
  memory.allow(step.input.data(), step.input.size() * 4, Access::Read);
  memory.allow(step.table.data(), step.table.size() * 4, Access::Read);
  for (const int32_t *numbers : {rowSequence, cachePositions, positions})
    memory.allow(numbers, numRows * 4, Access::Read);
  memory.allow(pageTable, sizeof(pageTable), Access::Read);
  memory.allow(step.out.data(), step.out.size() * 4, Access::ReadWrite);
  memory.allow(step.pages.data(), step.pages.size(), Access::ReadWrite);
  const float *input = step.input.data(), *table = step.table.data();
  float *out = step.out.data() + step.outStride;
  uint8_t *pages = step.pages.data();
  const int32_t *at = positions, *pagesOf = pageTable, *sequences = rowSequence, *slots = cachePositions;
  int32_t perSequence = pagesPerSequence;
  ptx::Launch launch;
  launch.blocks[0] = uint32_t(spec.heads());
  launch.blocks[1] = uint32_t(numRows);
  launch.threads[0] = uint32_t(gpuRotateAppendThreads(spec));
  kernel.run(launch,
             {&input, &out, &at, &table, &pages, &pagesOf, &sequences, &slots, &kOffset, &vOffset, &step.pageStride,
              &step.inputStride, &step.outStride, &perSequence},
             memory, order);
}

GpuKernel kernelOf(const RotateAppendSpec &spec) {
  std::string error;
  EXPECT_TRUE(succeeded(verifyGpuRotateAppend(spec, error))) << error;
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuRotateAppend(module, "rotate", spec); });
}

// Products and sums are rounded one by one, as the reference rounds them: the bits are the same.
bool leavesWhatItShould(const RotateAppendSpec &spec, const RotateAppendSpec &built, bool swapsPlanes = false) {
  Step expected(spec), step(spec);
  fill(spec, expected);
  run(kernelOf(built), built, step, swapsPlanes ? step.valueOffset : keyOffset,
      swapsPlanes ? keyOffset : step.valueOffset);
  return step.out == expected.out && step.pages == expected.pages;
}

RotateAppendSpec makeSpec(int64_t headDim, int64_t rotaryDim, int64_t offset = 0, bool isInterleaved = false,
                          KvType kv = KvType::BF16) {
  RotateAppendSpec spec;
  spec.numHeads = 4;
  spec.numKvHeads = 2;
  spec.headDim = headDim;
  spec.kv = kv;
  spec.rotaryDim = rotaryDim;
  spec.offset = offset;
  spec.isInterleaved = isInterleaved;
  return spec;
}

TEST(GpuRotateAppend, EveryPairing) {
  for (bool isInterleaved : {false, true})
    for (KvType kv : {KvType::BF16, KvType::F32})
      for (auto [headDim, rotaryDim, offset] :
           {std::tuple(16, 16, 0), {64, 64, 0}, {128, 128, 0}, {80, 32, 0}, {22, 10, 3}, {256, 64, 192}, {18, 6, 12}}) {
        SCOPED_TRACE("head_dim " + std::to_string(headDim) + ", rotary_dim " + std::to_string(rotaryDim));
        RotateAppendSpec spec = makeSpec(headDim, rotaryDim, offset, isInterleaved, kv);
        EXPECT_TRUE(leavesWhatItShould(spec, spec));
      }
}

TEST(GpuRotateAppend, WrongPairsAndSwappedPlanesAreSeen) {
  RotateAppendSpec spec = makeSpec(32, 32);
  EXPECT_FALSE(leavesWhatItShould(spec, makeSpec(32, 32, 0, /*isInterleaved=*/true)));
  EXPECT_FALSE(leavesWhatItShould(spec, makeSpec(32, 30)));
  EXPECT_FALSE(leavesWhatItShould(spec, spec, /*swapsPlanes=*/true));
}

TEST(GpuRotateAppend, RefusesWhatItDoesNotStore) {
  auto messageFor = [](const RotateAppendSpec &spec) {
    std::string error;
    EXPECT_TRUE(failed(verifyGpuRotateAppend(spec, error)));
    return error;
  };
  EXPECT_EQ(messageFor(makeSpec(16, 16, 0, false, KvType::F16)), "for caches of other numbers than bf16 and f32");
  EXPECT_EQ(messageFor(makeSpec(17, 16)), "for heads of an odd width (17)");
}

} // namespace
