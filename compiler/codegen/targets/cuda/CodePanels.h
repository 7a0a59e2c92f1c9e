// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Panels of codes on their way to tensor cores: a thread reads them as WeightChunks does, and puts them into shared memory as pairs of bf16, where those of
// bf16 weights lie (SharedPanels).
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CODEPANELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CODEPANELS_H

#include "compiler/codegen/targets/cuda/SharedTile.h"
#include "compiler/codegen/targets/cuda/WeightChunks.h"

namespace heddle {

class CodePanels {
public:
  // A block of `threads` threads has slices of `depth` columns, a multiple of the layout's block, of `panels` panels from `first` on, of which the matrix has
  // `count`, one behind the other: those behind the last one are the last one again.
  CodePanels(GpuBuilder &builder, const PackedLayout &layout, int64_t k, int64_t depth, int64_t panels, int64_t count,
             int64_t threads, mlir::Value weights, mlir::Value first);

  // This thread's chunks of a slice. Columns behind K are others, by which zeros are multiplied.
  llvm::SmallVector<WeightChunks::Chunk> load(mlir::Value slice);
  // As bf16, rounded to nearest.
  void store(llvm::ArrayRef<WeightChunks::Chunk> loaded, SharedPanels &to, mlir::Value stage);

private:
  // A place of a panel within a slice.
  struct Item {
    mlir::Value panel, place;
    mlir::Value from; // the panel's first byte
  };

  GpuBuilder &b;
  mlir::Value inPlace; // which of a place's lanes the thread is
  WeightChunks chunks;
  int64_t placesPerSlice;
  llvm::SmallVector<Item> items; // of this thread
};

} // namespace heddle

#endif
