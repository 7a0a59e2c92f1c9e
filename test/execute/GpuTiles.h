// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tiles of the table for tensor cores.
#ifndef HEDDLE_TEST_EXECUTE_GPUTILES_H
#define HEDDLE_TEST_EXECUTE_GPUTILES_H

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/schedule/ScheduleTable.h"

namespace heddle::test {

// The tile for steps of `rows` rows.
inline GpuMatmulTile gpuMatmulTile(int64_t rows) {
  mlir::MLIRContext context;
  context.loadDialect<HeddleDialect>();
  auto target = TargetAttr::get(&context, TargetDevice::Cuda, "cuda:sm_80", 0, 0, {}, "");
  GpuMatmulTile chosen{};
  for (TileAttr tile : matmulSchedule(target).getTiles())
    if (tile.getRole() == TileRole::Rows && rows <= tileOf(tile).maxRows)
      chosen = tileOf(tile);
  return chosen;
}

} // namespace heddle::test

#endif
