// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over the paged bf16 cache on tensor cores: the GPU body of `online_attention`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ONLINEATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ONLINEATTENTION_H

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

// Threads of a block. Each warp has 16 of the tile's query rows. A query row is a token and one of the heads that share a KV head, so
// that a page of keys and values is read once for the whole group.
int64_t gpuAttentionThreads(const AttentionSpec &spec);

// Fails with what the kernel does not take: it is causal, reads a bf16 cache whose head_dim is a multiple of 8 and at
// most 128, and knows neither sinks nor positions nor chunks; a tile's rows are a power of two, so many that its threads copy 8 to 64 rows
// of a page in one pass.
mlir::LogicalResult verifyGpuAttention(const AttentionSpec &spec, std::string &error);

// void name(const float *q,                 // (rows, numHeads * headDim), row stride qStride floats, even
//           float *out,                     // (rows, numHeads * headDim), row stride outStride floats, even
//           const uint8_t *cache,           // page p begins p * pageStride bytes behind it
//           const int32_t *pageTable,       // (sequences, pagesPerSequence)
//           const int32_t *sequenceRows,    // (sequences, 2): first row, number of rows
//           const int32_t *cachePositions,  // (rows)
//           int64_t kOffset, int64_t vOffset, int64_t pageStride,  // multiples of 16 bytes
//           int64_t qStride, int64_t outStride, int32_t pagesPerSequence)
// for a grid of (ceil(longest * headsOfTile / tileRows), numHeads / headsOfTile, sequences) blocks of gpuAttentionThreads, `longest`
// being the most rows of a sequence. q and out are 8-byte aligned, cache 16-byte. Slots behind a sequence's end are
// never read.
mlir::gpu::GPUFuncOp buildGpuAttention(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const AttentionSpec &spec);

} // namespace heddle

#endif
