// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over tensors, the CPU body of `flash_attention`: the tiles of AttentionTile.h walk over keys and values whose
// sizes and strides are known when they run, those of graphs.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H

#include "compiler/codegen/targets/cpu/OnlineAttention.h"

namespace heddle {

// One attention, as the kernel reads it. Strides count elements; those of head_dim, and of keys in `bias`, are 1.
struct FlashAttentionCall {
  struct Strides {
    int64_t batch, head, row; // row: a query or a key
  };
  const void *query;  // (batch, num_heads, queries, head_dim), of the type `rows`
  const void *key;    // (batch, num_kv_heads, keys, head_dim), of the type `kv`
  const void *value;  // (batch, num_kv_heads, keys, value_dim), likewise
  void *out;          // (batch, num_heads, queries, value_dim), of the type `rows`
  const float *bias;  // (batch, num_heads, queries, keys), read only with hasBias
  const float *sinks; // (num_heads), read only with hasSinks
  int64_t batch, queries, keys;
  Strides queryStrides, keyStrides, valueStrides, outStrides;
  Strides biasStrides; // 0 where a number serves all
  int64_t biasKey;     // 1, or 0 where a number serves all keys
};

// Adds to `module` void name(const FlashAttentionCall *, int64_t thread, int64_t numThreads), which computes thread `thread`'s
// share. Query i stands at key position keys - queries + i; a row that sees no key is zeros. Nothing is read behind the last key,
// nothing written between the rows of `out`. A row's bits depend on neither the threads nor the other rows.
mlir::func::FuncOp buildFlashAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                       const CpuTarget &target);

} // namespace heddle

#endif
