// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over the paged bf16 cache on tensor cores: the GPU body of `online_attention`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ONLINEATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ONLINEATTENTION_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace heddle {

// Threads of a block. Each warp has 16 of the tile's query rows. A query row is a token and one of the heads that share a KV head, so
// that a page of keys and values is read once for the whole group.
int64_t gpuAttentionThreads(const AttentionSpec &spec);

// The same for steps whose sequences have no more rows than a warp: its tile is one warp's, and leaves the same bits. More blocks, each of
// which waits for nobody, have more pages on their way.
AttentionSpec narrowed(AttentionSpec spec);

// Fails with what the kernel does not take: it is causal, reads a bf16 cache whose head_dim is a multiple of 8 and at
// most 128, and knows neither positions nor chunks; splits are whole pages; a tile's rows are a power of two from 16 on, so many that its threads copy
// at most 64 rows of a page in one pass.
mlir::LogicalResult verifyGpuAttention(const AttentionSpec &spec, std::string &error);

// void name(const float *q,                 // (rows, numHeads * headDim), row stride qStride floats, even
//           float *out,                     // (rows, numHeads * headDim), row stride outStride floats, even
//           const uint8_t *cache,           // page p begins p * pageStride bytes behind it
//           const int32_t *pageTable,       // (sequences, pagesPerSequence)
//           const int32_t *sequenceRows,    // (sequences, 2): first row, number of rows
//           const int32_t *cachePositions,  // (rows)
//           int64_t kOffset, int64_t vOffset, int64_t pageStride,  // multiples of 16 bytes
//           int64_t qStride, int64_t outStride, int32_t pagesPerSequence,
//           const float *sinks)             // (numHeads), with hasSinks alone
// for a grid of (ceil(longest * headsOfTile / tileRows), numHeads / headsOfTile, sequences) blocks of gpuAttentionThreads, `longest`
// being the most rows of a sequence. q and out are 8-byte aligned, cache 16-byte. Slots behind a sequence's end are
// never read. The keys of each split are attended to by themselves and merged; `out` holds what was merged until all are.
mlir::gpu::GPUFuncOp buildGpuAttention(mlir::gpu::GPUModuleOp module, llvm::StringRef name, const AttentionSpec &spec);

// The same of each split of the keys by itself, with what it leaves for buildGpuCombineSplits in place of `out`:
//   float *outputs,           // (rows, maxSplits, numHeads, headDim), not divided by sums
//   … int64_t maxSplits in place of outStride; no sinks, but behind pagesPerSequence
//   float *maxima, float *sums  // (rows, maxSplits, numHeads), maxima in units of log 2
// for a grid of (splits of the longest sequence, tiles * numHeads / headsOfTile, sequences), tiles as above. What no row of a tile sees of
// is not written.
mlir::gpu::GPUFuncOp buildGpuAttentionSplit(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                            const AttentionSpec &spec);

// The same as buildGpuAttention by wgmma, for sm_90a: keys are not split, and added up in another order. head_dim is 64 at least; a launch
// gives it so many bytes of shared memory.
mlir::gpu::GPUFuncOp buildWarpgroupAttention(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                             const AttentionSpec &spec);
// Query rows of its tiles in a schedule; 0: it has none.
int64_t warpgroupRowsOf(ScheduleAttr schedule);
// With tiles of `rows` query rows, a multiple of 64; a window takes registers, and leaves 64.
AttentionSpec ofWarpgroups(AttentionSpec spec, int64_t rows);
int64_t warpgroupAttentionBytes(const AttentionSpec &spec);

// Merges the splits that each row sees, in ascending order, to the bits of buildGpuAttention:
// void name(const float *outputs, const float *maxima, const float *sums,  // as above
//           float *out,                     // (rows, numHeads * headDim), row stride outStride floats, even
//           const int32_t *cachePositions,  // (rows)
//           int64_t outStride, int64_t maxSplits,
//           const float *sinks)             // (numHeads), with hasSinks alone
// for a grid of (rows, numHeads) blocks of a warp.
mlir::gpu::GPUFuncOp buildGpuCombineSplits(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                           const AttentionSpec &spec);

} // namespace heddle

#endif
