// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/weights/PackedLayout.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuDriver.h"
#include "test/execute/GpuKernel.h"

#include "test/execute/GpuTiles.h"
#include "test/execute/RandomWeights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace heddle;
using namespace heddle::test;

namespace {

using heddle::TensorType;

// Operands of one product, in double precision and as the kernel takes them.
struct Operands {
  Operands(const GpuMatmulSpec &spec, int64_t rows, TensorType type = TensorType::BF16)
      : actStride((spec.k + 7) / 8 * 8 + 8), outStride(spec.n + spec.n % 2 + 4) {
    act = rounded(randomFloats(rows * spec.k, 1.0f, 1));
    bias = randomFloats(spec.n, 1.0f, 3);
    before = randomFloats(rows * spec.n, 1.0f, 4);
    // What lies behind a row is no number.
    actBits.assign(rows * actStride, 0x7fff);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < spec.k; ++k)
        actBits[row * actStride + k] = bf16BitsOf(act[row * spec.k + k]);
    RandomWeights stored(type, spec.weightRows(), spec.k, 2);
    weights = rounded(stored.values);
    packed.resize(spec.weightPanels() * spec.panelBytes() / 16 * 2);
    std::vector<WeightSource> sources = {{stored.stored.data(), spec.n}};
    if (spec.isGated)
      sources.push_back({stored.stored.data() + stored.stored.size() / 2, spec.n});
    packPanels(type, sources, spec.k, 0, spec.weightPanels(), reinterpret_cast<uint8_t *>(packed.data()),
               spec.isGated ? PanelOrder::Interleaved : PanelOrder::Stacked);
  }

  static std::vector<float> rounded(std::vector<float> values) {
    for (float &value : values)
      value = roundToBf16(value);
    return values;
  }

  int64_t actStride, outStride;
  std::vector<float> act, weights, bias, before;
  std::vector<uint16_t> actBits;
  std::vector<uint64_t> packed;
};

std::vector<double> reference(const GpuMatmulSpec &spec, const Operands &operands, int64_t rows) {
  auto product = [&](int64_t row, int64_t weightRow) {
    double sum = 0;
    for (int64_t k = 0; k < spec.k; ++k)
      sum += double(operands.act[row * spec.k + k]) * operands.weights[weightRow * spec.k + k];
    return sum;
  };
  std::vector<double> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < spec.n; ++column) {
      double value = product(row, column);
      if (spec.hasBias)
        value += operands.bias[column];
      value = activated(spec.epilogue, value);
      if (spec.isGated)
        value *= product(row, spec.n + column);
      out.push_back(spec.accumulate ? value + operands.before[row * spec.n + column] : value);
    }
  return out;
}

// Runs the kernel and takes its rows out of the canaries around them.
std::vector<float> runMatmul(const GpuKernel &kernel, const GpuMatmulSpec &spec, const GpuMatmulTile &tile,
                             const Operands &operands, int64_t rows, ptx::WarpOrder order) {
  std::vector<float> out((rows + 2) * operands.outStride, canary);
  float *first = out.data() + operands.outStride;
  for (int64_t row = 0; spec.accumulate && row < rows; ++row)
    std::copy_n(&operands.before[row * spec.n], spec.n, first + row * operands.outStride);
  ptx::Memory memory;
  memory.allow(operands.actBits.data(), operands.actBits.size() * 2, ptx::Memory::Access::Read);
  memory.allow(operands.packed.data(), operands.packed.size() * 8, ptx::Memory::Access::Read);
  memory.allow(operands.bias.data(), operands.bias.size() * 4, ptx::Memory::Access::Read);
  memory.allow(out.data(), out.size() * 4, ptx::Memory::Access::ReadWrite);
  const void *act = operands.actBits.data(), *weights = operands.packed.data(), *bias = operands.bias.data();
  int32_t numRows = int32_t(rows);
  kernel.run(matmulLaunch(spec, tile, rows),
             {&act, &weights, &bias, &first, &numRows, &operands.actStride, &operands.outStride}, memory, order);
  return takeRows(out, rows, operands.outStride, spec.n);
}

GpuKernel kernelOf(const GpuMatmulSpec &spec, const GpuMatmulTile &tile) {
  return GpuKernel([&](mlir::gpu::GPUModuleOp module) { buildGpuMatmul(module, "matmul", spec, tile); },
                   tile.isOfWarpgroups ? "cuda:sm_90a" : "cuda:sm_80");
}

// Warpgroups multiply on sm_90a alone.
bool canRun(const GpuMatmulTile &tile) {
  GpuDriver *driver = GpuDriver::get();
  return !tile.isOfWarpgroups || !driver || driver->capability() == 90;
}

// Sums are f32: only their order differs from the reference.
void check(const GpuMatmulSpec &spec, const GpuMatmulTile &tile, std::initializer_list<int64_t> rowCounts,
           TensorType type = TensorType::BF16) {
  if (!canRun(tile))
    return;
  GpuKernel kernel = kernelOf(spec, tile);
  for (int64_t rows : rowCounts) {
    SCOPED_TRACE("rows " + std::to_string(rows) + ", n " + std::to_string(spec.n) + ", k " + std::to_string(spec.k));
    Operands operands(spec, rows, type);
    std::vector<float> out = runMatmul(kernel, spec, tile, operands, rows, ptx::WarpOrder::Ascending);
    // A code and its min are added in f32, so that one in thousands becomes the other of two bf16.
    EXPECT_LE(nmse(out, reference(spec, operands, rows)), spec.layout.hasMin ? 1e-7 : 1e-10);
    EXPECT_EQ(out, runMatmul(kernel, spec, tile, operands, rows, ptx::WarpOrder::Descending))
        << "warps in another order";
  }
}

const GpuMatmulTile few = gpuMatmulTile(1), some = gpuMatmulTile(100), many = gpuMatmulTile(512);

const llvm::SmallVector<GpuMatmulTile> ofWarpgroups = gpuMatmulTiles("cuda:sm_90a");

GpuMatmulSpec makeSpec(int64_t n, int64_t k) {
  GpuMatmulSpec spec;
  spec.n = n;
  spec.k = k;
  return spec;
}

TEST(GpuMatmul, EveryTile) {
  check(makeSpec(64, 256), few, {1, 5, 16, 17});
  check(makeSpec(64, 256), some, {1, 63, 64, 65});
  check(makeSpec(128, 128), many, {127, 128, 129});
}

TEST(GpuMatmul, EdgesOfColumns) {
  for (int64_t n : {1, 2, 15, 16, 17, 63, 65, 100})
    check(makeSpec(n, 64), few, {3});
  check(makeSpec(127, 64), some, {33});
  check(makeSpec(250, 32), many, {33});
}

TEST(GpuMatmul, EdgesOfDepth) {
  for (int64_t k : {1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 65, 99, 200, 257})
    check(makeSpec(32, k), few, {2});
  for (int64_t k : {30, 65})
    check(makeSpec(64, k), some, {20});
  for (int64_t k : {31, 33, 97})
    check(makeSpec(128, k), many, {20});
}

TEST(GpuMatmul, EpiloguesBiasAndResidual) {
  for (const GpuMatmulTile *tile : {&few, &some, &many})
    for (MatmulEpilogue epilogue : allEpilogues) {
      GpuMatmulSpec spec = makeSpec(tile == &few ? 40 : 41, 72);
      spec.epilogue = epilogue;
      spec.hasBias = true;
      check(spec, *tile, {9});
      spec.accumulate = true;
      check(spec, *tile, {9});
    }
}

TEST(GpuMatmul, Gated) {
  for (const GpuMatmulTile *tile : {&few, &some, &many})
    for (MatmulEpilogue epilogue : {MatmulEpilogue::Silu, MatmulEpilogue::GeluTanh}) {
      GpuMatmulSpec spec = makeSpec(80, 48);
      spec.epilogue = epilogue;
      spec.isGated = true;
      check(spec, *tile, {7});
      spec.accumulate = true;
      check(spec, *tile, {7});
    }
}

TEST(GpuWarpgroupMatmul, EveryTile) {
  ASSERT_EQ(ofWarpgroups.size(), 5u);
  for (const GpuMatmulTile &tile : ofWarpgroups) {
    check(makeSpec(tile.blockN, 256), tile, {1, tile.blockM - 1, tile.blockM, tile.blockM + 1});
    check(makeSpec(2 * tile.blockN + 16, 192), tile, {5});
  }
}

TEST(GpuWarpgroupMatmul, EdgesOfColumns) {
  for (int64_t n : {1, 2, 15, 16, 17, 63, 65, 100})
    check(makeSpec(n, 64), ofWarpgroups.back(), {3});
  for (const GpuMatmulTile &tile : ofWarpgroups)
    check(makeSpec(tile.blockN + 7, 64), tile, {33});
}

TEST(GpuWarpgroupMatmul, EdgesOfDepth) {
  for (int64_t k : {1, 2, 7, 8, 15, 16, 17, 63, 65, 99, 129, 200, 321, 450})
    check(makeSpec(32, k), ofWarpgroups.back(), {2});
  for (const GpuMatmulTile &tile : ofWarpgroups)
    for (int64_t k : {31, 97})
      check(makeSpec(64, k), tile, {20});
}

TEST(GpuWarpgroupMatmul, EpiloguesBiasAndResidual) {
  for (const GpuMatmulTile &tile : ofWarpgroups)
    for (MatmulEpilogue epilogue : allEpilogues) {
      if (tile.blockM > 64 && epilogue != MatmulEpilogue::Gelu)
        continue; // one formula for all
      GpuMatmulSpec spec = makeSpec(41, 72);
      spec.epilogue = epilogue;
      spec.hasBias = true;
      check(spec, tile, {9});
      spec.accumulate = true;
      check(spec, tile, {9});
    }
}

TEST(GpuWarpgroupMatmul, Gated) {
  for (const GpuMatmulTile &tile : ofWarpgroups)
    for (MatmulEpilogue epilogue : {MatmulEpilogue::Silu, MatmulEpilogue::GeluTanh}) {
      GpuMatmulSpec spec = makeSpec(80, 72);
      spec.epilogue = epilogue;
      spec.isGated = true;
      check(spec, tile, {7, tile.blockM / 2 + 3});
      spec.accumulate = true;
      check(spec, tile, {7});
    }
}

constexpr TensorType codes[] = {TensorType::Q4_0, TensorType::Q4_1, TensorType::Q5_0, TensorType::Q5_1,
                                TensorType::Q8_0, TensorType::Q2_K, TensorType::Q3_K, TensorType::Q4_K,
                                TensorType::Q5_K, TensorType::Q6_K, TensorType::Q1_0};

// Codes of every kind of chunk become bf16 on their way.
TEST(GpuMatmul, Codes) {
  for (TensorType type : codes) {
    SCOPED_TRACE(int(type));
    GpuMatmulSpec spec = makeSpec(80, 256);
    spec.layout = *layoutFor(type);
    for (const GpuMatmulTile *tile : {&few, &some, &many})
      check(spec, *tile, {7}, type);
    check(spec, ofWarpgroups.front(), {7}, type);
    check(spec, ofWarpgroups.back(), {19}, type);
  }
}

TEST(GpuMatmul, CodesOfGatedMatricesThatEndInASlice) {
  GpuMatmulSpec spec = makeSpec(80, 288);
  spec.layout = *layoutFor(TensorType::Q4_0);
  spec.epilogue = MatmulEpilogue::Silu;
  spec.isGated = true;
  for (const GpuMatmulTile &tile : ofWarpgroups)
    check(spec, tile, {7}, TensorType::Q4_0);
  check(spec, many, {7}, TensorType::Q4_0);
}

// Of 512 rows, few columns take the tile of 64 rows, whose blocks are more; more than 8 times W is not read.
TEST(GpuWarpgroupMatmul, TilesFollowTheBlocks) {
  auto rowsOfTile = [](int64_t rows, int64_t n) {
    return gpuMatmulTile(rows, "cuda:sm_90a", makeSpec(n, 64)).blockM; // of one slice, which nobody shares out
  };
  EXPECT_EQ(rowsOfTile(512, 16384), 128);
  EXPECT_EQ(rowsOfTile(513, 16384), 256);
  EXPECT_EQ(rowsOfTile(512, 2048), 64);
  EXPECT_EQ(rowsOfTile(513, 2048), 128);
  EXPECT_EQ(rowsOfTile(128, 4096), 32);
  EXPECT_EQ(rowsOfTile(4096, 2048), 256);
  EXPECT_EQ(rowsOfTile(128, 64), 16);
  EXPECT_EQ(rowsOfTile(129, 64), 32);
}

// Blocks of a cluster share out K, and the rows that they finish.
TEST(GpuWarpgroupMatmul, Splits) {
  for (GpuMatmulTile tile : ofWarpgroups)
    for (int64_t splits : {2, 4}) {
      tile.splits = splits;
      if (!tile.finishesRows(/*isGated=*/false))
        continue;
      check(makeSpec(tile.blockN + 7, 512), tile, {1, tile.blockM / 2 + 1, tile.blockM + 3});
      if (!tile.finishesRows(/*isGated=*/true))
        continue;
      GpuMatmulSpec spec = makeSpec(80, 768);
      spec.epilogue = MatmulEpilogue::Silu;
      spec.isGated = true;
      check(spec, tile, {tile.blockM / 2 + 3});
      GpuMatmulSpec ofCodes = makeSpec(40, 256);
      ofCodes.layout = *layoutFor(TensorType::Q4_0);
      ofCodes.accumulate = ofCodes.hasBias = true;
      check(ofCodes, tile, {9}, TensorType::Q4_0);
    }
}

TEST(GpuWarpgroupMatmul, SplitsFollowTheBlocks) {
  auto tileOf = [](int64_t rows, int64_t n, int64_t k) {
    GpuMatmulTile tile = gpuMatmulTile(rows, "cuda:sm_90a", makeSpec(n, k));
    return std::pair(tile.blockM, tile.splits);
  };
  EXPECT_EQ(tileOf(512, 2048, 8192), std::pair(int64_t(64), int64_t(1))) << "smaller tiles are faster there";
  EXPECT_EQ(tileOf(1024, 2048, 8192), std::pair(int64_t(128), int64_t(1)));
  EXPECT_EQ(tileOf(2048, 2048, 8192), std::pair(int64_t(256), int64_t(1)));
  EXPECT_EQ(tileOf(128, 4096, 4096), std::pair(int64_t(128), int64_t(4)));
  EXPECT_EQ(tileOf(64, 2048, 2048), std::pair(int64_t(64), int64_t(4)));
  EXPECT_EQ(tileOf(512, 16384, 2048), std::pair(int64_t(128), int64_t(1)));
  EXPECT_EQ(tileOf(512, 2048, 2112), std::pair(int64_t(64), int64_t(1)));
}

// What products of few columns and many slices take, each tile of it: some have splits, of fewer rows than any of the table.
TEST(GpuWarpgroupMatmul, EveryTileThatIsTaken) {
  for (bool isGated : {false, true})
    for (TensorType type : {TensorType::BF16, TensorType::Q4_0}) {
      GpuMatmulSpec spec = makeSpec(48, 1024);
      spec.layout = *layoutFor(type);
      spec.isGated = isGated;
      bool hasSplits = false;
      for (const GpuMatmulTile &tile : gpuMatmulTiles("cuda:sm_90a", spec)) {
        hasSplits |= tile.splits > 1;
        SCOPED_TRACE(std::to_string(tile.blockM) + " rows, " + std::to_string(tile.splits) + " splits");
        check(spec, tile, {5, std::min<int64_t>(tile.blockM, 40)}, type);
      }
      EXPECT_TRUE(hasSplits);
    }
}

// The bits of a row do not tell how many lay beside it.
TEST(GpuWarpgroupMatmul, AllTilesLeaveTheSameBits) {
  GpuMatmulSpec spec = makeSpec(144, 328);
  Operands operands(spec, 20);
  std::vector<float> first;
  for (const GpuMatmulTile &tile : ofWarpgroups) {
    if (!canRun(tile))
      GTEST_SKIP() << "not of this GPU";
    std::vector<float> out = runMatmul(kernelOf(spec, tile), spec, tile, operands, 20, ptx::WarpOrder::Ascending);
    if (first.empty())
      first = out;
    EXPECT_EQ(out, first);
  }
}

// What the emulator says of a kernel in whose text all that reads `from` reads `to`; "wrong" where nothing but its results tells.
std::string faultOf(const GpuMatmulTile &tile, const std::string &from, const std::string &to) {
  GpuMatmulSpec spec = makeSpec(64, tile.splits > 1 ? 384 : 448);
  std::string text = kernelOf(spec, tile).ptx();
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  Operands operands(spec, 16);
  GpuKernel kernel(text);
  for (ptx::WarpOrder order : {ptx::WarpOrder::Ascending, ptx::WarpOrder::Descending})
    try {
      if (!(nmse(runMatmul(kernel, spec, tile, operands, 16, order), reference(spec, operands, 16)) <= 1e-10))
        return "wrong";
    } catch (const ptx::Error &error) {
      return error.what();
    }
  return "";
}

TEST(GpuWarpgroupMatmul, FaultsAreSeen) {
  if (GpuDriver::get())
    GTEST_SKIP() << "a GPU may forgive them";
  using testing::HasSubstr;
  const GpuMatmulTile &alone = ofWarpgroups.front(), &small = ofWarpgroups.back();
  std::string one = "wgmma.wait_group.sync.aligned 1;", all = "wgmma.wait_group.sync.aligned 0;";
  for (const GpuMatmulTile &tile : {alone, small}) {
    EXPECT_EQ(faultOf(tile, "ret;", "ret;"), "");
    EXPECT_THAT(faultOf(tile, "fence.proxy.async.shared::cta;", ""), HasSubstr("not fenced for the async proxy"));
    EXPECT_THAT(faultOf(tile, "wgmma.fence.sync.aligned;", ""), HasSubstr("behind the last wgmma.fence"));
    EXPECT_THAT(faultOf(tile, "wgmma.commit_group.sync.aligned;", ""), HasSubstr("not waited for"));
    EXPECT_NE(faultOf(tile, "bar.sync \t0;", ""), "");
  }
  EXPECT_THAT(faultOf(alone, one, ""), HasSubstr("registers of a product that was not waited for are written"));
  EXPECT_THAT(faultOf(alone, one, "wgmma.wait_group.sync.aligned 2;"), HasSubstr("not waited for are written"));
  EXPECT_THAT(faultOf(alone, all, ""), HasSubstr("sums of a product that was not waited for are read"));
  EXPECT_THAT(faultOf(small, all, ""), HasSubstr("registers of a product that was not waited for are written"));
  EXPECT_EQ(faultOf(alone, "cp.async.wait_group \t1;", ""), "wrong");
  EXPECT_EQ(faultOf(small, "cp.async.wait_group \t2;", ""), "wrong");
  GpuMatmulTile split = ofWarpgroups[2];
  split.splits = 2;
  EXPECT_EQ(faultOf(split, "ret;", "ret;"), "");
  std::string wait = "barrier.cluster.wait.aligned;";
  EXPECT_NE(faultOf(split, wait, ""), "");
}

} // namespace
