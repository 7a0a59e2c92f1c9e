// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of few rows with packed weights of every type, against loops in f64 over what the types stand for.
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/PreparedRows.h"
#include "compiler/weights/PackedLayout.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuDriver.h"
#include "test/execute/GpuKernel.h"
#include "test/execute/GpuTiles.h"
#include "test/execute/RandomWeights.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace heddle;
using namespace heddle::test;

namespace {

using heddle::TensorType;

GpuMatmulSpec makeSpec(TensorType type, int64_t n, int64_t k) {
  GpuMatmulSpec spec;
  spec.n = n;
  spec.k = k;
  spec.layout = *layoutFor(type);
  spec.activation = MatmulActivation::F32;
  return spec;
}

// Operands of one product, in f32 and as the kernel takes them.
struct Operands {
  Operands(const GpuMatmulSpec &spec, TensorType type, int64_t rows)
      : weights(type, spec.weightRows(), spec.k, 2), actStride(spec.k + 8), outStride(spec.n + 3) {
    bool isBf16 = spec.activation == MatmulActivation::Bf16;
    act = randomFloats(rows * spec.k, 1.0f, 1);
    bias = randomFloats(spec.n, 1.0f, 3);
    before = randomFloats(rows * spec.n, 1.0f, 4);
    norm = randomFloats(spec.k, 1.0f, 5);
    // What lies behind a row is no number.
    actF32.assign(rows * actStride, NAN);
    actBf16.assign(rows * actStride, 0x7fff);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < spec.k; ++i) {
        float &value = act[row * spec.k + i];
        if (isBf16 && !spec.prepares)
          value = roundToBf16(value);
        actF32[row * actStride + i] = value;
        actBf16[row * actStride + i] = bf16BitsOf(value);
      }
    panels.resize(spec.weightPanels() * spec.panelBytes() / 16 * 2);
    const TensorTypeInfo &info = tensorTypeInfo(type);
    int64_t matrixBytes = spec.n * spec.k / info.blockValues * info.blockBytes;
    std::vector<WeightSource> sources = {{weights.stored.data(), spec.n}};
    if (spec.isGated)
      sources.push_back({weights.stored.data() + matrixBytes, spec.n});
    packPanels(type, sources, spec.k, 0, spec.weightPanels(), reinterpret_cast<uint8_t *>(panels.data()),
               spec.isGated ? PanelOrder::Interleaved : PanelOrder::Stacked);
  }

  RandomWeights weights;
  int64_t actStride, outStride;
  std::vector<float> act, bias, before, norm, actF32;
  std::vector<uint16_t> actBf16;
  std::vector<uint64_t> panels;
};

// Rows as the kernel multiplies them.
std::vector<double> preparedRows(const GpuMatmulSpec &spec, const Operands &operands, int64_t rows) {
  std::vector<double> x(operands.act.begin(), operands.act.begin() + rows * spec.k);
  if (!spec.prepares)
    return x;
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0, scale = 1;
    for (int64_t i = 0; i < spec.k; ++i)
      squares += x[row * spec.k + i] * x[row * spec.k + i];
    if (spec.prepares->hasNorm)
      scale = 1 / std::sqrt(squares / spec.k + spec.prepares->eps);
    for (int64_t i = 0; i < spec.k; ++i) {
      double &value = x[row * spec.k + i];
      if (spec.prepares->hasNorm)
        value *= scale * (operands.norm[i] + spec.prepares->weightOffset);
      if (spec.activation == MatmulActivation::Bf16)
        value = roundToBf16(float(value));
    }
  }
  return x;
}

std::vector<double> reference(const GpuMatmulSpec &spec, const Operands &operands, int64_t rows) {
  std::vector<double> act = preparedRows(spec, operands, rows);
  auto product = [&](int64_t row, int64_t weightRow) {
    double sum = 0;
    for (int64_t i = 0; i < spec.k; ++i)
      sum += act[row * spec.k + i] * operands.weights.values[weightRow * spec.k + i];
    return sum;
  };
  std::vector<double> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < spec.n; ++column) {
      double value = activated(spec.epilogue, product(row, column) + (spec.hasBias ? operands.bias[column] : 0));
      if (spec.isGated)
        value *= product(row, spec.n + column);
      out.push_back(spec.accumulate ? value + operands.before[row * spec.n + column] : value);
    }
  return out;
}

// Rows [begin, begin + rows) of the operands, taken out of the canaries around what the kernel writes.
std::vector<float> runGemv(const GpuKernel &kernel, const GpuMatmulSpec &spec, const GpuGemvTile &tile,
                           const Operands &operands, int64_t begin, int64_t rows, ptx::WarpOrder order) {
  std::vector<float> out((rows + 2) * operands.outStride, canary);
  float *first = out.data() + operands.outStride;
  for (int64_t row = 0; spec.accumulate && row < rows; ++row)
    std::copy_n(&operands.before[(begin + row) * spec.n], spec.n, first + row * operands.outStride);
  ptx::Memory memory;
  using Access = ptx::Memory::Access;
  memory.allow(operands.actF32.data(), operands.actF32.size() * 4, Access::Read);
  memory.allow(operands.actBf16.data(), operands.actBf16.size() * 2, Access::Read);
  memory.allow(operands.panels.data(), operands.panels.size() * 8, Access::Read);
  memory.allow(operands.bias.data(), operands.bias.size() * 4, Access::Read);
  memory.allow(operands.norm.data(), operands.norm.size() * 4, Access::Read);
  memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
  const void *act = spec.activation == MatmulActivation::Bf16 && !spec.prepares
                        ? static_cast<const void *>(&operands.actBf16[begin * operands.actStride])
                        : &operands.actF32[begin * operands.actStride];
  const void *weights = operands.panels.data(), *bias = operands.bias.data(), *norm = operands.norm.data();
  int32_t numRows = int32_t(rows);
  if (spec.prepares)
    kernel.run(gemvLaunch(spec, tile, rows),
               {&act, &weights, &bias, &first, &numRows, &operands.actStride, &operands.outStride, &norm}, memory,
               order);
  else
    kernel.run(gemvLaunch(spec, tile, rows),
               {&act, &weights, &bias, &first, &numRows, &operands.actStride, &operands.outStride}, memory, order);
  return takeRows(out, rows, operands.outStride, spec.n);
}

GpuKernel kernelOf(const GpuMatmulSpec &spec, const GpuGemvTile &tile) {
  std::string error;
  EXPECT_TRUE(succeeded(verifyGpuGemv(spec, error))) << error;
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuGemv(module, "gemv", spec, tile); });
}

// Sums are f32: only their order differs from the reference, and where there are mins one more rounding of a weight. With codes, rows are two bf16:
// 2^-18 of a number are 1.5e-11, of a product of two sums more.
double mostErrorOf(const GpuMatmulSpec &spec) {
  return hasCodeGemv(spec) ? 1e-10 : 1e-11;
}

void check(const GpuMatmulSpec &spec, TensorType type, int64_t tileRows, std::initializer_list<int64_t> rowCounts) {
  GpuGemvTile tile = gpuGemvTile(spec, tileRows);
  GpuKernel kernel = kernelOf(spec, tile);
  for (int64_t rows : rowCounts) {
    SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + ", rows " + std::to_string(rows) + ", n " +
                 std::to_string(spec.n) + ", k " + std::to_string(spec.k));
    Operands operands(spec, type, rows);
    std::vector<float> out = runGemv(kernel, spec, tile, operands, 0, rows, ptx::WarpOrder::Ascending);
    EXPECT_LE(nmse(out, reference(spec, operands, rows)), mostErrorOf(spec));
    EXPECT_EQ(out, runGemv(kernel, spec, tile, operands, 0, rows, ptx::WarpOrder::Descending))
        << "warps in another order";
  }
}

bool isTaken(TensorType type) {
  return layoutFor(type)->book == CodeBook::None;
}

TEST(GpuGemv, EveryType) {
  for (TensorType type : weightTypes())
    if (isTaken(type))
      for (int64_t rows : {1, 4})
        check(makeSpec(type, 32, 512), type, rows, {rows});
  for (TensorType type : weightTypes())
    if (isTaken(type) && hasCodeGemv(makeSpec(type, 32, 512)))
      check(makeSpec(type, 32, 512), type, 16, {16});
}

TEST(GpuGemv, Bf16Activations) {
  for (int64_t rows : {1, 2, 4}) {
    GpuMatmulSpec spec = makeSpec(TensorType::BF16, 48, 328);
    spec.activation = MatmulActivation::Bf16;
    check(spec, TensorType::BF16, rows, {rows});
  }
}

TEST(GpuGemv, EdgesOfRowsAndColumns) {
  for (int64_t n : {1, 15, 16, 17, 33})
    for (int64_t tileRows : {1, 2, 4, 16})
      check(makeSpec(TensorType::Q4_0, n, 64), TensorType::Q4_0, tileRows, {1, tileRows, tileRows + 1});
}

// Steps that not all warps have, rounds with and without a rest, and places that not all lanes have.
TEST(GpuGemv, EdgesOfDepth) {
  for (int64_t k : {32, 64, 96, 480, 512, 544, 2048, 2080, 2560})
    for (TensorType type : {TensorType::Q4_0, TensorType::Q8_0})
      check(makeSpec(type, 16, k), type, 1, {1});
  for (int64_t k : {256, 768, 2304})
    for (TensorType type : {TensorType::Q2_K, TensorType::Q3_K, TensorType::Q4_K, TensorType::Q6_K})
      check(makeSpec(type, 16, k), type, 2, {2});
  for (int64_t k : {2, 14, 16, 18, 126, 130, 600})
    check(makeSpec(TensorType::BF16, 16, k), TensorType::BF16, 1, {1});
  for (int64_t k : {1, 7, 63, 65, 300})
    check(makeSpec(TensorType::F32, 16, k), TensorType::F32, 1, {1});
}

TEST(GpuGemv, EpiloguesBiasAndResidual) {
  for (int64_t tileRows : {1, 4})
    for (MatmulEpilogue epilogue : allEpilogues) {
      GpuMatmulSpec spec = makeSpec(TensorType::Q8_0, 41, 96);
      spec.epilogue = epilogue;
      spec.hasBias = true;
      check(spec, TensorType::Q8_0, tileRows, {5});
      spec.accumulate = true;
      check(spec, TensorType::Q8_0, tileRows, {5});
    }
}

TEST(GpuGemv, Gated) {
  for (int64_t tileRows : {1, 2, 4, 16})
    for (MatmulEpilogue epilogue : {MatmulEpilogue::Silu, MatmulEpilogue::GeluTanh}) {
      GpuMatmulSpec spec = makeSpec(TensorType::Q4_K, 48, 256);
      spec.epilogue = epilogue;
      spec.isGated = true;
      check(spec, TensorType::Q4_K, tileRows, {tileRows});
      spec.accumulate = true;
      check(spec, TensorType::Q4_K, tileRows, {tileRows});
    }
}

TEST(GpuGemv, ARowHasItsBitsInEveryBatch) {
  for (TensorType type : {TensorType::Q4_0, TensorType::Q6_K, TensorType::BF16}) {
    const int64_t rows = 18;
    GpuMatmulSpec spec = makeSpec(type, 32, 2816);
    Operands operands(spec, type, rows);
    std::vector<float> whole;
    for (int64_t tileRows : {type == TensorType::BF16 ? 4 : 16, 4, 2, 1}) {
      GpuGemvTile tile = gpuGemvTile(spec, tileRows);
      GpuKernel kernel = kernelOf(spec, tile);
      std::vector<float> joined;
      for (int64_t begin = 0; begin < rows; begin += tileRows) {
        std::vector<float> part =
            runGemv(kernel, spec, tile, operands, begin, std::min(tileRows, rows - begin), ptx::WarpOrder::Ascending);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, runGemv(kernel, spec, tile, operands, 0, rows, ptx::WarpOrder::Ascending));
      if (whole.empty())
        whole = joined;
      EXPECT_EQ(joined, whole) << tileRows << " rows a block";
    }
  }
}

GpuMatmulSpec makePreparing(TensorType type, int64_t n, int64_t k, bool hasNorm, double weightOffset = 0) {
  GpuMatmulSpec spec = makeSpec(type, n, k);
  if (type == TensorType::BF16)
    spec.activation = MatmulActivation::Bf16;
  spec.prepares = {hasNorm, /*eps=*/1e-5, weightOffset};
  return spec;
}

// A rounding of a number that lies between two bf16 goes either way, as the sum of squares was added up.
double mostError(const GpuMatmulSpec &spec) {
  return spec.activation == MatmulActivation::Bf16 && spec.prepares->hasNorm ? 1e-7 : mostErrorOf(spec);
}

void checkPreparing(const GpuMatmulSpec &spec, TensorType type, int64_t tileRows, int64_t rows) {
  SCOPED_TRACE(std::string(tensorTypeInfo(type).name) + ", rows " + std::to_string(rows) + ", k " +
               std::to_string(spec.k));
  GpuGemvTile tile = gpuGemvTile(spec, tileRows);
  GpuKernel kernel = kernelOf(spec, tile);
  Operands operands(spec, type, rows);
  std::vector<float> out = runGemv(kernel, spec, tile, operands, 0, rows, ptx::WarpOrder::Ascending);
  EXPECT_LE(nmse(out, reference(spec, operands, rows)), mostError(spec));
  EXPECT_EQ(out, runGemv(kernel, spec, tile, operands, 0, rows, ptx::WarpOrder::Descending)) << "another order";
}

TEST(GpuGemv, NormsAndRoundsRowsAsItReadsThem) {
  for (TensorType type : {TensorType::BF16, TensorType::F32, TensorType::Q4_0, TensorType::Q6_K})
    for (int64_t k : {256, 1280, 2304})
      for (int64_t rows : {1, 2, 4})
        checkPreparing(makePreparing(type, 32, k, /*hasNorm=*/true), type, rows, rows);
  checkPreparing(makePreparing(TensorType::BF16, 32, 130, /*hasNorm=*/false), TensorType::BF16, 1, 1);
  checkPreparing(makePreparing(TensorType::BF16, 32, 34, /*hasNorm=*/true, /*weightOffset=*/1), TensorType::BF16, 2, 3);
  GpuMatmulSpec gated = makePreparing(TensorType::Q8_0, 48, 288, /*hasNorm=*/true);
  gated.isGated = true;
  gated.epilogue = MatmulEpilogue::Silu;
  checkPreparing(gated, TensorType::Q8_0, 4, 3);
}

// The rows of `operands` by a kernel of their own, as `act` of the result: f32 in both of its forms.
Operands preparedApart(const GpuMatmulSpec &spec, TensorType type, int64_t rows, const Operands &operands) {
  bool rounds = spec.activation == MatmulActivation::Bf16;
  GpuKernel kernel(
      [&](mlir::gpu::GPUModuleOp module) { buildGpuPreparation(module, "rows", *spec.prepares, rounds, spec.k); });
  Operands prepared = operands;
  ptx::Memory memory;
  using Access = ptx::Memory::Access;
  memory.allow(operands.actF32.data(), operands.actF32.size() * 4, Access::Read);
  memory.allow(operands.norm.data(), operands.norm.size() * 4, Access::Read);
  memory.allow(prepared.actF32.data(), prepared.actF32.size() * 4, Access::ReadWrite);
  memory.allow(prepared.actBf16.data(), prepared.actBf16.size() * 2, Access::ReadWrite);
  const void *x = operands.actF32.data(), *norm = operands.norm.data();
  void *out = rounds ? static_cast<void *>(prepared.actBf16.data()) : prepared.actF32.data();
  ptx::Launch launch;
  launch.blocks[0] = uint32_t(rows);
  launch.threads[0] = uint32_t(preparingThreads);
  kernel.run(launch, {&x, &out, &norm, &operands.actStride, &operands.actStride}, memory, ptx::WarpOrder::Descending);
  return prepared;
}

// Few rows prepare what they read, many read what a kernel before them prepared: nothing tells which it was.
TEST(GpuGemv, PreparingLeavesTheBitsOfAKernelBefore) {
  for (TensorType type : {TensorType::BF16, TensorType::F32, TensorType::Q8_0})
    for (int64_t k : {96, 1056, 2560}) {
      const int64_t rows = 3;
      GpuMatmulSpec spec = makePreparing(type, 32, k, /*hasNorm=*/true), apart = spec;
      apart.prepares.reset();
      Operands operands(spec, type, rows), prepared = preparedApart(spec, type, rows, operands);
      GpuGemvTile tile = gpuGemvTile(spec, 4);
      EXPECT_EQ(runGemv(kernelOf(spec, tile), spec, tile, operands, 0, rows, ptx::WarpOrder::Ascending),
                runGemv(kernelOf(apart, tile), apart, tile, prepared, 0, rows, ptx::WarpOrder::Ascending))
          << tensorTypeInfo(type).name << ", k " << k;
    }
}

// Without the barrier behind the sums of squares a warp scales by what others have not written; another scale is seen.
TEST(GpuGemv, AWrongScaleIsSeen) {
  GpuMatmulSpec spec = makePreparing(TensorType::Q4_0, 32, 512, /*hasNorm=*/true), other = spec;
  other.prepares->eps = 1e-2;
  GpuGemvTile tile = gpuGemvTile(spec, 1);
  Operands operands(spec, TensorType::Q4_0, 1);
  std::vector<double> expected = reference(spec, operands, 1);
  EXPECT_GT(nmse(runGemv(kernelOf(other, tile), other, tile, operands, 0, 1, ptx::WarpOrder::Ascending), expected),
            1e-6);
  if (GpuDriver::get())
    GTEST_SKIP() << "a GPU may have the warps in an order that hides the barrier";
  std::string text = kernelOf(spec, tile).ptx();
  size_t barrier = text.find("bar.sync");
  ASSERT_NE(barrier, std::string::npos);
  text.erase(barrier, text.find(';', barrier) + 1 - barrier);
  std::vector<float> out = runGemv(GpuKernel(text), spec, tile, operands, 0, 1, ptx::WarpOrder::Ascending);
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](float value) { return std::isnan(value); }));
}

// Without a barrier, the warp that comes first reads what the others have not written: sums, and with codes rows.
TEST(GpuGemv, AMissingBarrierIsSeen) {
  if (GpuDriver::get())
    GTEST_SKIP() << "a GPU may have the warps in an order that hides it";
  for (auto [type, barriers] : {std::pair(TensorType::F16, 1), {TensorType::Q4_0, 2}}) {
    GpuMatmulSpec spec = makeSpec(type, 32, 512);
    GpuGemvTile tile = gpuGemvTile(spec, 1);
    const std::string whole = kernelOf(spec, tile).ptx();
    int found = 0;
    for (size_t at = whole.find("bar.sync"); at != std::string::npos; at = whole.find("bar.sync", at + 1), ++found) {
      std::string text = whole;
      text.erase(at, text.find(';', at) + 1 - at);
      Operands operands(spec, type, 1);
      std::vector<float> out = runGemv(GpuKernel(text), spec, tile, operands, 0, 1, ptx::WarpOrder::Ascending);
      EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](float value) { return std::isnan(value); })) << found;
    }
    EXPECT_EQ(found, barriers);
  }
}

// Slices of K where 16 rows do not lie in shared memory at once, and more panels than blocks: sets of them, the last one with panels to spare.
TEST(GpuGemv, SlicesAndSets) {
  for (TensorType type : {TensorType::Q4_0, TensorType::Q6_K}) {
    GpuMatmulSpec deep = makeSpec(type, 48, 2816 + 512);
    GpuGemvTile tile = gpuGemvTile(deep, 16);
    EXPECT_LT(tile.slice, deep.k);
    check(deep, type, 16, {5, 16, 17});
    GpuMatmulSpec wide = makeSpec(type, 16 * 528 + 40, 256);
    EXPECT_EQ(gpuGemvTile(wide, 1).sets, 3);
    check(wide, type, 1, {1});
  }
}

TEST(GpuGemv, RefusesWhatItDoesNotCompute) {
  auto messageFor = [](const GpuMatmulSpec &spec) {
    std::string error;
    EXPECT_TRUE(failed(verifyGpuGemv(spec, error)));
    return error;
  };
  EXPECT_EQ(messageFor(makeSpec(TensorType::MXFP4, 16, 64)), "of a code book");
  EXPECT_EQ(messageFor(makeSpec(TensorType::BF16, 16, 63)), "of k = 63, no multiple of 2");
  GpuMatmulSpec spec = makeSpec(TensorType::F16, 16, 64);
  spec.activation = MatmulActivation::Bf16;
  EXPECT_EQ(messageFor(spec), "of rounded activations");
}

} // namespace
