// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a token's key and value lie in a page of the cache that CPU kernels write and read. Each KV head has a plane of 64 tokens for its
// keys and one for its values; what products of bf16 multiply lies in the order in which they read it, so that no page is arranged anew at
// each token that looks at it.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PAGELAYOUT_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PAGELAYOUT_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "dialect/HeddleDialect.h"

namespace heddle::cpu {

enum class PlaneOrder {
  Rows,        // (64 tokens, columns)
  ColumnPairs, // (columns / 2, 64 tokens, 2): neighbouring columns of a token side by side
  TokenPairs, // (columns / run, 64 tokens / 2, run, 2): a column of neighbouring tokens side by side, in runs of valueRunColumns
};

// Pages of bf16 whose heads have an even number of columns, and codes of q8_0: keys in ColumnPairs, values in TokenPairs. The partner of a
// sequence's last value, where that is none of the sequence yet, is zero: of q8_0 its scales are. A latent cache, whose values are columns of
// its keys, has rows.
bool hasPairedPages(KvType kv, int64_t headDim, bool isLatent);
bool hasPairedPages(KvCacheType cache);
bool hasPairedPages(const AttentionSpec &spec);
bool hasPairedPages(const KvAppendSpec &spec);

// Columns that a pass over the tokens of a plane sums: what it reads then lies in one piece. 64, or all where those are no multiple of it.
int64_t valueRunColumns(int64_t columns);

PlaneOrder planeOrder(bool isPaired, bool isValue);

// Elements before that of `token` (0 … 63) and `column` in a plane of `columns`.
int64_t elementOf(PlaneOrder order, int64_t columns, int64_t token, int64_t column);

// Of q8_0, bytes before the scale of `token` and block of columns `block` in a plane of `columns`, behind all codes: for keys
// (columns / 32, 64 tokens), for values (64 tokens / 2, columns / 32, 2).
int64_t scaleOf(PlaneOrder order, int64_t columns, int64_t token, int64_t block);

} // namespace heddle::cpu

#endif
