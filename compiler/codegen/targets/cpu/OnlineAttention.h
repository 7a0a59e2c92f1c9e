// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over the paged cache, the CPU body of `online_attention`: tiles of query rows walk over the 64-token
// pages of their sequence with a running maximum and sum. ATTENTION.md has the reasons.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINEATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINEATTENTION_H

#include "compiler/codegen/Target.h"
#include "compiler/codegen/RawBuilder.h"

namespace heddle {

// Keys whose partial result is formed on its own before it is merged: the same for every kernel, so that a split and
// an unsplit kernel agree to the bit.
constexpr int64_t attentionSplitTokens = 512;

// What the two matrix products multiply; sums and the softmax are f32 always.
enum class Products {
  F32,
  // Queries and weights rounded to bf16, for a bf16 cache with an even head_dim. Twice as many products per instruction
  // where the target has avx512bf16; elsewhere correct and slow.
  Bf16,
};

struct AttentionSpec {
  int64_t numHeads = 0;
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t valueHeadDim = 0; // 0: headDim
  double scale = 1.0;
  double softcap = 0.0; // score = softcap * tanh(score / softcap); 0: none
  // Sliding window in tokens, 0: none. Query i sees key j only if i - window < j (and j < i + window if not causal).
  int64_t window = 0;
  bool causal = true; // j <= i; false: every token of the sequence
  KvType kv = KvType::BF16;
  Products products = Products::F32;
  KvType rows = KvType::F32;   // queries and the output of `buildFlashAttention`; elsewhere they are f32
  bool hasBias = false;        // score += bias, of `buildFlashAttention` alone
  bool hasSinks = false;       // one more logit per head that takes part in the sum alone
  bool hasAlibiSlopes = false; // score += slope[head] * (j - i)
  bool shareKvHeads = true;    // false: the query heads of a group one by one, to measure what sharing gains
  // Keys and values are tensors of any strides: nothing may be read behind the last key, and a window has no end ahead.
  bool isDense = false;
  // Values are the first valueDim() columns of the keys: one plane holds both, and vOffset is kOffset.
  bool valuesInKeys = false;
  bool storesScores = false; // all scores of a tile go to memory before the softmax, to measure what tiling gains
  int64_t tileHeads = 0;     // query heads of a tile, a divisor of the group; 0: the group
  int64_t blockQ = 0;        // tokens of a tile; 0: chosen from the dimensions

  int64_t valueDim() const { return valueHeadDim ? valueHeadDim : headDim; }
  int64_t group() const { return numHeads / numKvHeads; }
  // Columns from a value to that of the next token, and heads of a tile.
  int64_t valueRowDim() const { return valuesInKeys ? headDim : valueDim(); }
  int64_t headsOfTile() const { return !shareKvHeads ? 1 : tileHeads ? tileHeads : group(); }
};

// Fails with the violated constraint: heads positive and divisible, dims in 1 … 1024, finite scale and softcap, what
// bf16 products ask for.
mlir::LogicalResult verifyAttention(const AttentionSpec &spec, std::string &error);

// void name(const float *q,         // (rows, numHeads * headDim), rows qStride floats apart
//           float *out,             // (rows, numHeads * valueHeadDim), rows outStride floats apart
//           const heddle_sequence *sequences, int64_t numSequences,
//           int64_t kOffset, int64_t vOffset,   // bytes of this layer's K and V inside a page
//           int64_t qStride, int64_t outStride,
//           const float *sinks,     // (numHeads), or null without hasSinks
//           [const float *slopes,]  // (numHeads), this parameter only with hasAlibiSlopes
//           [float *scores,         // (rows, numHeads, keys), keys a multiple of 64 that no sequence exceeds;
//            int64_t keys,]         // these only with storesScores
//           int32_t thread, int32_t numThreads)
// Every thread needs stack for a tile: about 200 KB at head_dim 128, 1 MB at 1024.
mlir::func::FuncOp buildAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                  const CpuTarget &target);

// Steps of few rows divide the keys among threads as well: what a row saw of each split of attentionSplitTokens is kept,
// unscaled, until it is merged. maxSplits is at least that of the longest sequence.
struct SplitStates {
  // float *outputs,   // (rows of the step, maxSplits, numHeads, valueHeadDim)
  // float *maxima,    // (rows of the step, maxSplits, numHeads), in units of log 2
  // float *sums,      // (rows of the step, maxSplits, numHeads)
  mlir::Value outputs, maxima, sums, maxSplits;
};

// void name(const float *q, float *outputs, float *maxima, float *sums, const heddle_sequence *sequences,
//           int64_t numSequences, int64_t kOffset, int64_t vOffset, int64_t qStride, int64_t maxSplits,
//           [const float *slopes,] int32_t thread, int32_t numThreads)
mlir::func::FuncOp buildAttentionSplit(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                       const CpuTarget &target);

// After a barrier. Together the two leave the bits that buildAttention's kernel leaves.
// void name(const float *outputs, const float *maxima, const float *sums, float *out, const heddle_sequence *sequences,
//           int64_t numSequences, int64_t outStride, int64_t maxSplits, const float *sinks, int32_t thread,
//           int32_t numThreads)
mlir::func::FuncOp buildCombineSplits(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                      const CpuTarget &target);

} // namespace heddle

#endif
