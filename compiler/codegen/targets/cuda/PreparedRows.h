// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a product makes of f32 rows before it multiplies them: they are normalised and rounded to bf16. Few rows are as they are read
// (Gemv.h), many by a kernel of their own before the product; both run the same arithmetic in the same order.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_PREPAREDROWS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_PREPAREDROWS_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

// Threads of every block that prepares rows: the order of their sums is part of the result.
constexpr int64_t preparingThreads = 256;

class PreparedRows {
public:
  // `weight`: const float *, (k), with a norm.
  PreparedRows(GpuBuilder &builder, const RowPreparation &preparation, bool rounds, int64_t k, mlir::Value weight)
      : b(builder), preparation(preparation), rounds(rounds), k(k), weight(weight) {}

  // Bytes of shared memory that `begin` takes for so many rows.
  static int64_t sharedBytes(const RowPreparation &preparation, int64_t rows) {
    return preparation.hasNorm ? rows * (preparingThreads / warpSize) * 4 : 0;
  }
  // By all threads of a block: what each row is scaled by. `shared`: where its bytes begin, which nobody else writes.
  void begin(llvm::ArrayRef<mlir::Value> rows, int64_t shared);
  // What a row at `column` is multiplied by, `count` numbers; none without a norm.
  llvm::SmallVector<mlir::Value> factors(mlir::Value column, int64_t count);
  // Numbers of row `row` of begin's, as they are multiplied; to be rounded they are pairs.
  llvm::SmallVector<mlir::Value> prepare(int64_t row, llvm::ArrayRef<mlir::Value> numbers,
                                         llvm::ArrayRef<mlir::Value> factors);

private:
  mlir::Value sumOfSquares(mlir::Value row);

  GpuBuilder &b;
  const RowPreparation preparation;
  bool rounds;
  int64_t k;
  mlir::Value weight;
  llvm::SmallVector<mlir::Value> scales;
};

// void name(const float *x,      // (rows, K), row stride xStride elements
//           void *out,           // (rows, K) bf16 where it rounds, else f32; row stride outStride elements, of bf16 even
//           const float *weight, // (K), with a norm, else unused
//           int64_t xStride, int64_t outStride)
// for a grid of (rows) blocks of preparingThreads threads. K is even where it rounds.
mlir::gpu::GPUFuncOp buildGpuPreparation(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                         const RowPreparation &preparation, bool rounds, int64_t k);

} // namespace heddle

#endif
