// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention behind states in pages, token by token: the GPU body of `ragged_linear_attention`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_RAGGEDLINEARATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_RAGGEDLINEARATTENTION_H

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

// Of each block, and columns of a head's values that it has.
constexpr int64_t gpuStateThreads = 64;
int64_t gpuStateColumns(const LinearAttentionSpec &spec);

// void name(const float *query, const float *key, // (rows, numKeyHeads * keyDim), row strides queryStride and keyStride floats
//           const float *value, float *out,       // (rows, numHeads * valueDim), likewise
//           const float *decay,                   // (rows, decayWidth()), with hasDecay alone
//           const float *beta,                    // (rows, numHeads), with hasBeta alone
//           const uint8_t *cache,                 // page p begins p * pageStride bytes behind it
//           const int32_t *pageTable,             // (sequences, pagesPerSequence)
//           const int32_t *sequenceRows,          // (sequences, 2): first row, number of rows
//           const int32_t *cachePositions,        // (rows)
//           int64_t queryStride, int64_t keyStride, int64_t valueStride, int64_t outStride, int64_t decayStride, int64_t betaStride,
//           int64_t stateOffset, int64_t pageStride, int32_t pagesPerSequence)
// for a grid of (ceil(valueDim / gpuStateColumns), numHeads, sequences) blocks of gpuStateThreads.
mlir::gpu::GPUFuncOp buildGpuLinearAttention(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                             const LinearAttentionSpec &spec);

} // namespace heddle

#endif
