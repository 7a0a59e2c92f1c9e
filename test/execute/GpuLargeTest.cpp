// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guards the index arithmetic of kernels for GPUs: rows of activations that lie gigabytes apart, and pages of a cache of more than 2^32
// bytes, whose planes lie behind 2^31. Memory is reserved, and only what a kernel touches is real.

#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/weights/PackedLayout.h"
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuKernel.h"
#include "test/execute/GpuTiles.h"
#include "test/execute/SparseMemory.h"

#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr int64_t rows = 6, farBytes = (int64_t(1) << 30) + 4096;

void multiplyRowsFarApart(llvm::StringRef target) {
  const GpuMatmulTile tile = gpuMatmulTile(rows, target);
  GpuMatmulSpec spec;
  spec.n = spec.k = 64;
  GpuKernel kernel([&](mlir::gpu::GPUModuleOp module) { buildGpuMatmul(module, "matmul", spec, tile); }, target);
  std::vector<float> act = randomFloats(rows * spec.k, 1.0f, 1), weights = randomFloats(spec.n * spec.k, 1.0f, 2);
  std::vector<uint16_t> stored, packed(spec.weightPanels() * spec.panelBytes() / 2);
  for (float &weight : weights)
    stored.push_back(bf16BitsOf(weight = roundToBf16(weight)));
  packPanels(heddle::TensorType::BF16, {{reinterpret_cast<const uint8_t *>(stored.data()), spec.n}}, spec.k, 0,
             spec.weightPanels(), reinterpret_cast<uint8_t *>(packed.data()));
  SparseMemory farAct(rows * farBytes), out(rows * farBytes);
  for (int64_t i = 0; i < rows * spec.k; ++i)
    farAct.at<uint16_t>(i / spec.k * farBytes)[i % spec.k] = bf16BitsOf(act[i] = roundToBf16(act[i]));
  ptx::Memory memory;
  memory.allow(farAct.at<void>(), rows * farBytes, ptx::Memory::Access::Read);
  memory.allow(packed.data(), packed.size() * 2, ptx::Memory::Access::Read);
  memory.allow(out.at<void>(), rows * farBytes, ptx::Memory::Access::ReadWrite);
  const void *from = farAct.at<void>(), *matrix = packed.data(), *bias = nullptr, *to = out.at<void>();
  int32_t numRows = int32_t(rows);
  int64_t actStride = farBytes / 2, outStride = farBytes / 4;
  kernel.run(matmulLaunch(spec, tile, rows), {&from, &matrix, &bias, &to, &numRows, &actStride, &outStride}, memory,
             ptx::WarpOrder::Ascending);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < spec.n; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < spec.k; ++k)
        sum += double(act[row * spec.k + k]) * weights[column * spec.k + k];
      ASSERT_NEAR(out.at<float>(row * farBytes)[column], sum, 1e-4) << row << ", " << column;
    }
}

TEST(GpuLarge, matmulOfRowsFarApart) {
  multiplyRowsFarApart("cuda:sm_80");
}

TEST(GpuLarge, warpgroupMatmulOfRowsFarApart) {
  multiplyRowsFarApart("cuda:sm_90a");
}

TEST(GpuLarge, attentionOverALargeCache) {
  AttentionSpec spec;
  spec.numHeads = 4, spec.numKvHeads = 2, spec.headDim = 32;
  spec.scale = 1 / std::sqrt(32.0);
  spec.kv = KvType::BF16;
  spec.tileRows = 64;
  GpuKernel kernel([&](mlir::gpu::GPUModuleOp module) { buildGpuAttention(module, "attention", spec); });
  const int32_t past = 64;
  PagedCache near(spec, {past + rows}, 3, PagesOf::Device);
  int64_t width = spec.numHeads * spec.headDim, plane = spec.numKvHeads * HEDDLE_KV_PAGE_SIZE * spec.headDim * 2;
  // Pages of 3 GiB, of which the sequence has the last two.
  int64_t pageStride = int64_t(3) << 30, kOffset = (int64_t(1) << 31) - plane / 2, vOffset = kOffset + plane;
  const int32_t table[] = {2, 1};
  SparseMemory cache(3 * pageStride), queries(rows * farBytes), out(rows * farBytes);
  for (int64_t page = 0; page < 2; ++page) {
    std::memcpy(cache.at<void>(table[page] * pageStride + kOffset), near.pages(0)[page] + near.keyOffset(), plane);
    std::memcpy(cache.at<void>(table[page] * pageStride + vOffset), near.pages(0)[page] + near.valueOffset(), plane);
  }
  std::vector<float> q = randomFloats(rows * width, 1.0f, 9);
  for (float &value : q)
    value = roundToBf16(value);
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(queries.at<void>(row * farBytes), &q[row * width], width * sizeof(float));
  const int32_t sequenceRows[] = {0, int32_t(rows)};
  std::vector<int32_t> positions;
  for (int32_t row = 0; row < rows; ++row)
    positions.push_back(past + row);
  ptx::Memory memory;
  using Access = ptx::Memory::Access;
  memory.allow(queries.at<void>(), rows * farBytes, Access::Read);
  memory.allow(out.at<void>(), rows * farBytes, Access::ReadWrite);
  memory.allow(cache.at<void>(), 3 * pageStride, Access::Read);
  memory.allow(table, sizeof table, Access::Read);
  memory.allow(sequenceRows, sizeof sequenceRows, Access::Read);
  memory.allow(positions.data(), positions.size() * 4, Access::Read);
  const void *from = queries.at<void>(), *to = out.at<void>(), *pages = cache.at<void>(), *pageTable = table;
  const void *ofSequences = sequenceRows, *ofRows = positions.data();
  int64_t stride = farBytes / 4;
  int32_t pagesPerSequence = 2;
  kernel.run(attentionLaunch(spec, rows, 1),
             {&from, &to, &pages, &pageTable, &ofSequences, &ofRows, &kOffset, &vOffset, &pageStride, &stride, &stride,
              &pagesPerSequence},
             memory, ptx::WarpOrder::Ascending);
  std::vector<float> found;
  for (int64_t i = 0; i < rows * width; ++i)
    found.push_back(out.at<float>(i / width * farBytes)[i % width]);
  EXPECT_LE(nmse(found, referenceAttention(spec, near, {{past, int32_t(rows)}}, q, {}, PositionTable(spec))), 5e-5);
}

} // namespace
