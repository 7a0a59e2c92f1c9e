// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of a product of Gemv.h, whatever multiplies: its rows, and what becomes of finished sums.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GEMVBLOCK_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GEMVBLOCK_H

#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/PreparedRows.h"

namespace heddle {

class GemvBlock {
protected:
  using Value = mlir::Value;

  // The builder stands behind what finds the block's place; the emitter has `sharedBytes` of shared memory from byte 0 on.
  GemvBlock(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const GpuMatmulSpec &spec, const GpuGemvTile &tile,
            int64_t sharedBytes);

  bool readsBf16() const { return spec.activation == MatmulActivation::Bf16 && !spec.prepares; }
  int64_t actBytes() const { return readsBf16() ? 2 : 4; }

  // The first byte of a panel. One behind the last is the last, and what comes of it is not stored.
  Value panelAt(Value panel);
  // By all threads: `prepared` is there, if rows are prepared.
  void beginRows();
  // By all threads: a thread finishes one number of the tile's panels from `firstPanel` on. `sumOf`: of a row, panel and row of the panel.
  void finish(Value firstPanel, llvm::function_ref<Value(Value, Value, Value)> sumOf);
  // The last block that has stored columns of a head makes what HeadRows does of it. The first bytes of shared memory are overwritten.
  void finishHeads();

  const GpuMatmulSpec &spec;
  const GpuGemvTile &tile;
  GpuBuilder b;
  Value lane, warp, rows, blockRow, blockPanel;
  llvm::SmallVector<Value> act; // of the block's rows, the first byte; behind the last one, the last
  std::optional<PreparedRows> prepared;

private:
  int64_t preparingAt;
};

// Bytes of shared memory that preparing takes.
int64_t preparingBytes(const GpuMatmulSpec &spec, const GpuGemvTile &tile);

// `tile` with what CodeGemv.cpp has beside it.
GpuGemvTile codeGemvTile(GpuGemvTile tile, const GpuMatmulSpec &spec);
// Of a tile with slices.
mlir::gpu::GPUFuncOp buildCodeGemv(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const GpuMatmulSpec &spec,
                                   const GpuGemvTile &tile);

} // namespace heddle

#endif
