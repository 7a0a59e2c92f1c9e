// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary embedding of queries and keys, and the cache's rows of a step, in one kernel: what stands between the projections and attention.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ROTATEAPPEND_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ROTATEAPPEND_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

// Fails with what the kernel does not store: caches of other numbers than bf16 and f32, and heads of an odd width.
mlir::LogicalResult verifyGpuRotateAppend(const RotateAppendSpec &spec, std::string &error);

// A thread has two columns of a head.
int64_t gpuRotateAppendThreads(const RotateAppendSpec &spec);

// void name(const float *input,            // (rows, heads() * headDim), row stride inputStride elements, even
//           float *out,                    // (rows, numHeads * headDim), row stride outStride elements, even
//           const int32_t *positions,      // (rows)
//           const float *table,            // (context, rotaryDim): rotaryDim / 2 cosines, then as many sines
//           void *cache,                   // pages
//           const int32_t *pageTable,      // (sequences, pagesPerSequence)
//           const int32_t *rowSequence, const int32_t *cachePositions, // (rows)
//           int64_t kOffset, int64_t vOffset, int64_t pageStride,      // bytes
//           int64_t inputStride, int64_t outStride, int32_t pagesPerSequence)
// for a grid of (heads(), rows) blocks. A number's bits depend on its head and its position alone.
mlir::gpu::GPUFuncOp buildGpuRotateAppend(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                          const RotateAppendSpec &spec);

} // namespace heddle

#endif
