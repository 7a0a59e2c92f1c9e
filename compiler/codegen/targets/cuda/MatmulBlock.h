// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of a product of PackedMatmul.h, whatever instruction multiplies: slices of K of both matrices on their way to shared memory, and finished sums on
// theirs to `out`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_MATMULBLOCK_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_MATMULBLOCK_H

#include "compiler/codegen/targets/cuda/CodePanels.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/codegen/targets/cuda/SharedTile.h"

namespace heddle {

class MatmulBlock {
protected:
  using Value = mlir::Value;

  // The builder stands behind what finds the block's place. Stages lie `stageBytes` apart in shared memory: first the activations, then the panels.
  MatmulBlock(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const GpuMatmulSpec &spec,
              const GpuMatmulTile &tile);

  // Of the block.
  int64_t slices() const;
  // The first `ahead` slices are on their way, a group of copies each; of weights that are codes, the first is there.
  void loadFirst(int64_t ahead);
  // Of weights that are codes, the slice: read, and then put where it is read from, as bf16. Of others, nothing.
  llvm::SmallVector<WeightChunks::Chunk> loadCodes(Value slice);
  void storeCodes(llvm::ArrayRef<WeightChunks::Chunk> chunks, Value stage);
  // One more group: the slice, if there is one.
  void loadNext(Value slice, Value stage);
  Value nextStage(Value stage);

  // What lies in memory for (row, column): f32.
  Value place(Value row, Value column);
  // A finished value.
  void put(Value value, Value to);

  const GpuMatmulSpec &spec;
  const GpuMatmulTile &tile;
  GpuBuilder b;
  SharedTile actTile;
  SharedPanels panels;
  Value act, weights, bias, out, rows, actStride, outStride;
  Value thread, lane, warp, blockRow, blockColumn;
  Value firstSlice; // of the block's; null: 0

private:
  // A slice on its way: what each thread copies, one pass of all threads after the other.
  struct SliceCopies {
    Value shared;                    // byte offset in the tile, of the first pass
    llvm::SmallVector<Value> global; // first byte to copy in the matrix' first slice
    llvm::SmallVector<Value> column; // first column in the slice, i32
    llvm::SmallVector<Value> inside; // the row or panel exists, i1; null: it does always
  };
  void planActCopies();
  void planWeightCopies();
  template <typename Tile>
  void copySlice(Tile &to, const SliceCopies &copies, int64_t end, int64_t sliceBytes, int64_t columns, Value slice,
                 Value stage);
  void load(Value slice, Value stage);

  SliceCopies actCopies, weightCopies;
  std::optional<CodePanels> codes;
};

// Of the tile's kind (GpuMatmulTile::isOfWarpgroups).
mlir::gpu::GPUFuncOp buildWarpgroupMatmul(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                          const GpuMatmulSpec &spec, const GpuMatmulTile &tile);

} // namespace heddle

#endif
