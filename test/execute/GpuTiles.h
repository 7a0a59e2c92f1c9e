// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tiles of the table, how kernels are launched, and the formulas of epilogues.
#ifndef HEDDLE_TEST_EXECUTE_GPUTILES_H
#define HEDDLE_TEST_EXECUTE_GPUTILES_H

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/schedule/ScheduleTable.h"
#include "test/execute/Activated.h"
#include "test/ptx/Machine.h"

namespace heddle::test {

inline constexpr MatmulEpilogue allEpilogues[] = {
    MatmulEpilogue::None, MatmulEpilogue::Silu,      MatmulEpilogue::Gelu, MatmulEpilogue::GeluTanh,
    MatmulEpilogue::Relu, MatmulEpilogue::QuickGelu, MatmulEpilogue::Tanh, MatmulEpilogue::SquaredRelu};

// Calls `take` with the table's schedule for products.
template <typename Take> void withMatmulSchedule(llvm::StringRef targetName, Take take) {
  mlir::MLIRContext context;
  context.loadDialect<HeddleDialect>();
  take(matmulSchedule(TargetAttr::get(&context, TargetDevice::Cuda, targetName, 0, 0, {}, "")));
}

// Of a product that has blocks enough with every tile.
inline GpuMatmulSpec wideMatmul() {
  GpuMatmulSpec spec;
  spec.n = 16384;
  spec.k = 64;
  return spec;
}

// The tiles for tensor cores, those of most rows first.
inline llvm::SmallVector<GpuMatmulTile> gpuMatmulTiles(llvm::StringRef targetName,
                                                       const GpuMatmulSpec &spec = wideMatmul()) {
  llvm::SmallVector<GpuMatmulTile> tiles;
  withMatmulSchedule(targetName, [&](ScheduleAttr schedule) { tiles = tensorCoreTiles(schedule, spec); });
  return tiles;
}

// The one that a product takes in steps of `rows` rows.
inline GpuMatmulTile gpuMatmulTile(int64_t rows, llvm::StringRef targetName = "cuda:sm_80",
                                   const GpuMatmulSpec &spec = wideMatmul()) {
  GpuMatmulTile chosen{};
  for (const GpuMatmulTile &tile : gpuMatmulTiles(targetName, spec))
    if (rows <= tile.maxRows)
      chosen = tile;
  return chosen;
}

// The lowest tile for blocks of that many rows.
inline GpuGemvTile gpuGemvTile(const GpuMatmulSpec &spec, int64_t rows) {
  GpuGemvTile chosen{};
  withMatmulSchedule("cuda:sm_80", [&](ScheduleAttr schedule) {
    for (TileAttr tile : schedule.getTiles())
      if (tile.getRole() == gemvRole(spec) && tile.getRows().front() >= rows)
        chosen = gemvTileOf(tile, spec);
  });
  return chosen;
}

inline ptx::Launch gemvLaunch(const GpuMatmulSpec &spec, const GpuGemvTile &tile, int64_t rows) {
  ptx::Launch launch;
  launch.blocks[0] = uint32_t((spec.weightPanels() + tile.blockPanels() - 1) / tile.blockPanels());
  launch.blocks[1] = uint32_t((rows + tile.rows - 1) / tile.rows);
  launch.threads[0] = uint32_t(tile.threads());
  launch.sharedBytes = uint32_t(tile.sharedBytes(spec));
  return launch;
}

inline ptx::Launch matmulLaunch(const GpuMatmulSpec &spec, const GpuMatmulTile &tile, int64_t rows) {
  ptx::Launch launch;
  launch.blocks[0] = uint32_t((spec.weightPanels() * 16 + tile.blockN - 1) / tile.blockN);
  launch.blocks[1] = uint32_t((rows + tile.blockM - 1) / tile.blockM);
  launch.blocks[2] = uint32_t(tile.splits);
  launch.threads[0] = uint32_t(tile.threads());
  launch.sharedBytes = uint32_t(launchedSharedBytes(tile.sharedBytes()));
  return launch;
}

// `longest`: the most rows that a sequence has in the step.
inline ptx::Launch attentionLaunch(const AttentionSpec &spec, int64_t longest, size_t sequences) {
  ptx::Launch launch;
  launch.blocks[0] = uint32_t((longest * spec.headsOfTile() + spec.tileRows - 1) / spec.tileRows);
  launch.blocks[1] = uint32_t(spec.numHeads / spec.headsOfTile());
  launch.blocks[2] = uint32_t(sequences);
  launch.threads[0] = uint32_t(gpuAttentionThreads(spec));
  return launch;
}

// As the table has whole attention by wgmma on sm_90a; nothing where it has none.
inline std::optional<AttentionSpec> warpgroupAttention(const AttentionSpec &spec) {
  mlir::MLIRContext context;
  context.loadDialect<HeddleDialect>();
  auto target = TargetAttr::get(&context, TargetDevice::Cuda, "cuda:sm_90a", 0, 0, {}, "");
  int64_t rows = warpgroupRowsOf(attentionSchedule(target, spec.headDim));
  return rows ? std::optional(ofWarpgroups(spec, rows)) : std::nullopt;
}

// Of a spec that warpgroupAttention made.
inline ptx::Launch warpgroupAttentionLaunch(const AttentionSpec &spec, int64_t longest, size_t sequences) {
  ptx::Launch launch = attentionLaunch(spec, longest, sequences);
  launch.sharedBytes = uint32_t(launchedSharedBytes(warpgroupAttentionBytes(spec)));
  return launch;
}

// `longest`: the most tokens that a sequence attends to.
inline ptx::Launch splitLaunch(const AttentionSpec &spec, int64_t rows, int64_t longest, size_t sequences) {
  ptx::Launch launch = attentionLaunch(spec, rows, sequences);
  launch.blocks[1] *= launch.blocks[0];
  launch.blocks[0] = uint32_t((longest + spec.splitKv - 1) / spec.splitKv);
  return launch;
}

inline ptx::Launch combineLaunch(const AttentionSpec &spec, int64_t rows) {
  ptx::Launch launch;
  launch.blocks[0] = uint32_t(rows);
  launch.blocks[1] = uint32_t(spec.numHeads);
  launch.threads[0] = uint32_t(warpSize);
  return launch;
}

} // namespace heddle::test

#endif
