// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heads of queries, keys and values on their way to attention: queries and keys are normalised where the model does it, and rotated; queries go to a
// buffer, keys and values into their pages. A kernel of its own does it (RotateAppend.h), or a product that ends with it (Gemv.h).
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_HEADROWS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_HEADROWS_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

class HeadRows {
public:
  // What a kernel takes for it, in this order:
  //   float *out,                    // (rows, numHeads * headDim), row stride outStride elements, even
  //   const int32_t *positions,      // (rows)
  //   const float *table,            // (context, rotaryDim): rotaryDim / 2 cosines, then as many sines
  //   void *cache,                   // pages
  //   const int32_t *pageTable,      // (sequences, pagesPerSequence)
  //   const int32_t *rowSequence, const int32_t *cachePositions, // (rows)
  //   const float *queryNorm, const float *keyNorm,              // (headDim), where heads are normalised, else unused
  //   int64_t kOffset, int64_t vOffset, int64_t pageStride,      // bytes
  //   int64_t outStride, int32_t pagesPerSequence
  static void addParameters(mlir::MLIRContext *context, llvm::SmallVectorImpl<mlir::Type> &types);

  // `first`: the number of the first of those parameters.
  HeadRows(GpuBuilder &builder, const RotateAppendSpec &spec, unsigned first)
      : b(builder), spec(spec), first(first), lane(b.remainder(b.threadIndex(), warpSize)) {}

  // By a whole warp: head `head` of row `row`, whose numbers lie at `from` as f32. A number's bits depend on its head and its position alone.
  void store(mlir::Value head, mlir::Value row, mlir::Value from);

private:
  mlir::Value argument(unsigned index) { return b.argument(first + index); }
  int64_t kvBytes() const { return spec.kv == KvType::F32 ? 4 : 2; }
  mlir::Value scaleOf(mlir::Value from);
  mlir::Value number(mlir::Value column);
  mlir::Value rotated(mlir::Value column);
  std::array<mlir::Value, 2> loadPair(mlir::Value column);
  // Where the row's plane of keys or values begins for a head.
  mlir::Value cachedAt(mlir::Value kvHead, mlir::Value row, mlir::Value planeOffset);

  GpuBuilder &b;
  const RotateAppendSpec &spec;
  unsigned first;
  mlir::Value lane;
  mlir::Value from, angles, norm, scale; // of the head: its numbers, the cosines of its row, what it is normalised with
};

} // namespace heddle

#endif
