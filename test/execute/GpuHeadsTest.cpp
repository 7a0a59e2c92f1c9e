// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of few rows that end with the rotation of heads: the last block to be done with a head reads what others have stored, and leaves the bits
// that the product and the rotation leave as two kernels.
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/RotateAppend.h"
#include "compiler/weights/PackedLayout.h"
#include "test/execute/GpuDriver.h"
#include "test/execute/GpuTiles.h"
#include "test/execute/HeadStep.h"
#include "test/execute/RandomWeights.h"

#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using heddle::TensorType;

// Heads of bf16 or f32 activations times weights of a type.
GpuMatmulSpec productOf(const RotateAppendSpec &heads, TensorType type, int64_t k, bool hasNorm) {
  GpuMatmulSpec spec;
  spec.n = heads.width();
  spec.k = k;
  spec.layout = *layoutFor(type);
  spec.activation = type == TensorType::BF16 ? MatmulActivation::Bf16 : MatmulActivation::F32;
  spec.hasBias = true;
  if (hasNorm || type == TensorType::BF16)
    spec.prepares = {hasNorm, /*eps=*/1e-5, /*weightOffset=*/0};
  return spec;
}

struct Operands {
  Operands(const GpuMatmulSpec &spec, TensorType type)
      : act(randomFloats(HeadStep::numRows * spec.k, 1.0f, 1)), bias(randomFloats(spec.n, 1.0f, 3)),
        norm(randomFloats(spec.k, 1.0f, 5)), actStride(spec.k),
        panels(spec.weightPanels() * spec.panelBytes() / 16 * 2) {
    RandomWeights weights(type, spec.n, spec.k, 2);
    packPanels(type, {{weights.stored.data(), spec.n}}, spec.k, 0, spec.weightPanels(),
               reinterpret_cast<uint8_t *>(panels.data()), PanelOrder::Stacked);
  }
  void allow(ptx::Memory &memory) const {
    for (const std::vector<float> *numbers : {&act, &bias, &norm})
      memory.allow(numbers->data(), numbers->size() * 4, ptx::Memory::Access::Read);
    memory.allow(panels.data(), panels.size() * 8, ptx::Memory::Access::Read);
  }

  std::vector<float> act, bias, norm;
  int64_t actStride;
  std::vector<uint64_t> panels;
};

GpuKernel kernelOf(const GpuMatmulSpec &spec, const GpuGemvTile &tile) {
  std::string error;
  EXPECT_TRUE(succeeded(verifyGpuGemv(spec, error))) << error;
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuGemv(module, "gemv", spec, tile); });
}

// What launches take, as values that live as long as this.
struct LaunchValues {
  LaunchValues(const Operands &operands, HeadStep &step, int64_t rows)
      : operands(operands), step(step), act(operands.act.data()), weights(operands.panels.data()),
        bias(operands.bias.data()), norm(operands.norm.data()), product(step.input.data()),
        out(step.out.data() + step.outStride), table(step.table.data()), queryNorm(step.queryNorm.data()),
        keyNorm(step.keyNorm.data()), pages(step.pages.data()), counters(step.counters.data()), at(step.positions),
        pagesOf(step.pageTable), sequences(step.rowSequence), slots(step.cachePositions), numRows(int32_t(rows)) {
    operands.allow(memory);
    step.allow(memory);
    memory.allow(step.input.data(), step.input.size() * 4, ptx::Memory::Access::ReadWrite);
  }

  // Of the product, which goes to the step's input.
  std::vector<GpuArgument> ofProduct(bool prepares) const {
    std::vector<GpuArgument> list = {&act, &weights, &bias, &product, &numRows, &operands.actStride, &step.inputStride};
    if (prepares)
      list.push_back(&norm);
    return list;
  }
  // Of what is made of its rows.
  std::vector<GpuArgument> ofHeads() const {
    return {&out,
            &at,
            &table,
            &pages,
            &pagesOf,
            &sequences,
            &slots,
            &queryNorm,
            &keyNorm,
            &step.keyOffset,
            &step.valueOffset,
            &step.pageStride,
            &step.outStride,
            &step.pagesPerSequence};
  }

  const Operands &operands;
  HeadStep &step;
  ptx::Memory memory;
  const void *act, *weights, *bias, *norm;
  float *product, *out;
  const float *table, *queryNorm, *keyNorm;
  uint8_t *pages;
  uint32_t *counters;
  const int32_t *at, *pagesOf, *sequences, *slots;
  int32_t numRows;
};

std::vector<GpuArgument> joined(std::vector<GpuArgument> first, const std::vector<GpuArgument> &second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// One kernel: the product goes to the step's input, what is made of it to its queries and pages.
void runFused(const GpuKernel &kernel, const GpuMatmulSpec &spec, const GpuGemvTile &tile, const Operands &operands,
              HeadStep &step, int64_t rows, ptx::WarpOrder order) {
  LaunchValues values(operands, step, rows);
  std::vector<GpuArgument> arguments = values.ofProduct(bool(spec.prepares));
  arguments.push_back(&values.counters);
  kernel.run(gemvLaunch(spec, tile, rows), joined(std::move(arguments), values.ofHeads()), values.memory, order);
}

// Two kernels.
void runApart(GpuMatmulSpec spec, const GpuGemvTile &tile, const Operands &operands, HeadStep &step, int64_t rows) {
  RotateAppendSpec heads = *spec.heads;
  spec.heads.reset();
  LaunchValues values(operands, step, rows);
  kernelOf(spec, tile)
      .run(gemvLaunch(spec, tile, rows), values.ofProduct(bool(spec.prepares)), values.memory,
           ptx::WarpOrder::Ascending);
  GpuKernel rotate([&](mlir::gpu::GPUModuleOp module) { buildGpuRotateAppend(module, "rotate", heads); });
  ptx::Launch launch;
  launch.blocks[0] = uint32_t(heads.numAllHeads());
  launch.blocks[1] = uint32_t(rows);
  launch.threads[0] = uint32_t(warpSize);
  rotate.run(launch, joined({&values.product, &step.inputStride}, values.ofHeads()), values.memory,
             ptx::WarpOrder::Ascending);
}

bool isSame(const HeadStep &a, const HeadStep &b) {
  return a.out == b.out && a.pages == b.pages && a.counters == b.counters;
}

void check(const RotateAppendSpec &heads, TensorType type, int64_t k, bool hasNorm, int64_t tileRows, int64_t rows) {
  SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + ", head_dim " + std::to_string(heads.headDim) + ", rows " +
               std::to_string(rows) + " of " + std::to_string(tileRows));
  GpuMatmulSpec spec = productOf(heads, type, k, hasNorm);
  spec.heads = heads;
  GpuGemvTile tile = gpuGemvTile(spec, tileRows);
  Operands operands(spec, type);
  HeadStep expected(heads);
  runApart(spec, tile, operands, expected, rows);
  GpuKernel kernel = kernelOf(spec, tile);
  for (ptx::WarpOrder order : {ptx::WarpOrder::Ascending, ptx::WarpOrder::Descending}) {
    HeadStep step(heads);
    runFused(kernel, spec, tile, operands, step, rows, order);
    EXPECT_TRUE(isSame(step, expected));
    // Counters are as they were: the next step is the same.
    runFused(kernel, spec, tile, operands, step, rows, order);
    EXPECT_TRUE(isSame(step, expected));
  }
}

TEST(GpuHeads, EveryTypeOfWeights) {
  for (TensorType type : {TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q4_0, TensorType::Q8_0,
                          TensorType::Q4_K, TensorType::Q6_K})
    for (bool hasNorm : {false, true})
      check(rotateAppendSpec(32, 32), type, 256, hasNorm, /*tileRows=*/1, /*rows=*/1);
}

// Heads of several blocks, blocks of several heads, and heads that begin within a block.
TEST(GpuHeads, EveryWidthOfHeads) {
  for (int64_t headDim : {8, 16, 20, 24, 40, 64, 80, 128})
    for (int64_t tileRows : {1, 2, 4})
      check(rotateAppendSpec(headDim, headDim), TensorType::Q4_0, 64, /*hasNorm=*/true, tileRows,
            tileRows == 4 ? 3 : tileRows);
}

TEST(GpuHeads, PairsPartsAndNormsOfHeads) {
  for (KvType kv : {KvType::BF16, KvType::F32}) {
    check(rotateAppendSpec(64, 64, 0, /*isInterleaved=*/true, kv), TensorType::Q8_0, 64, true, 1, 1);
    check(rotateAppendSpec(80, 32, 0, false, kv), TensorType::Q8_0, 64, true, 2, 2);
    check(rotateAppendSpec(48, 16, 32, true, kv), TensorType::Q8_0, 64, false, 4, 4);
    RotateAppendSpec normed = rotateAppendSpec(64, 64, 0, false, kv);
    normed.heads = {/*hasNorm=*/true, /*eps=*/1e-6, /*weightOffset=*/1};
    check(normed, TensorType::Q4_0, 64, true, 1, 1);
    check(normed, TensorType::BF16, 64, true, 4, 4);
  }
}

// The fused kernel without the n-th instruction that begins with `name`, or with it twice in another's place.
std::string without(std::string text, const std::string &name, int n) {
  size_t at = text.find(name);
  for (int i = 0; i < n && at != std::string::npos; ++i)
    at = text.find(name, at + 1);
  EXPECT_NE(at, std::string::npos) << name;
  text.erase(at, text.find(';', at) + 1 - at);
  return text;
}

// What blocks leave of their head must be fenced before they count, and behind that before the last one reads; all threads must have stored before.
TEST(GpuHeads, AMissingFenceCountOrBarrierIsSeen) {
  if (GpuDriver::get())
    GTEST_SKIP() << "a GPU may have the blocks in an order that hides it";
  const int64_t rows = 4; // of which each has a warp
  RotateAppendSpec heads = rotateAppendSpec(64, 64);
  GpuMatmulSpec spec = productOf(heads, TensorType::Q4_0, 64, /*hasNorm=*/false);
  spec.heads = heads;
  GpuGemvTile tile = gpuGemvTile(spec, rows);
  Operands operands(spec, TensorType::Q4_0);
  HeadStep expected(heads);
  runApart(spec, tile, operands, expected, rows);
  std::string text = kernelOf(spec, tile).ptx();
  auto isSeen = [&](const std::string &changed, ptx::WarpOrder order) {
    HeadStep step(heads);
    runFused(GpuKernel(changed), spec, tile, operands, step, rows, order);
    return !isSame(step, expected);
  };
  EXPECT_FALSE(isSeen(text, ptx::WarpOrder::Ascending));
  for (int fence : {0, 1})
    EXPECT_TRUE(isSeen(without(text, "fence.acq_rel.gpu", fence), ptx::WarpOrder::Ascending)) << "fence " << fence;
  EXPECT_TRUE(isSeen(without(text, "atom.global.inc", 0), ptx::WarpOrder::Ascending));
  // Behind the first barrier, of the sums, one waits for what all threads have stored, the other for the count.
  EXPECT_TRUE(isSeen(without(text, "bar.sync", 1), ptx::WarpOrder::Ascending));
  EXPECT_TRUE(isSeen(without(text, "bar.sync", 2), ptx::WarpOrder::Descending));
}

TEST(GpuHeads, RefusesHeadsThatAreNotTheProduct) {
  GpuMatmulSpec spec = productOf(rotateAppendSpec(64, 64), TensorType::Q4_0, 64, false);
  spec.heads = rotateAppendSpec(32, 32);
  std::string error;
  EXPECT_TRUE(failed(verifyGpuGemv(spec, error)));
  EXPECT_EQ(error, "of 8 heads of 32 columns that it has 512 of");
}

} // namespace
