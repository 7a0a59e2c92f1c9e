// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Biases that follow from the distance between a query and a key: slopes (ALiBi, arXiv:2108.12409) and buckets (T5, arXiv:1910.10683).
#ifndef HEDDLE_COMPILER_RAISE_POSITIONBIAS_H
#define HEDDLE_COMPILER_RAISE_POSITIONBIAS_H

#include "compiler/raise/Arrange.h"

namespace heddle {

// Where a score stands: head, query and key, and how many of each there are.
struct ScorePlaces {
  Axis head, query, key;
};

// What `heddle.position_bias` adds.
struct PositionBias {
  Expr slope = nullptr;     // in `head`; null where there are buckets
  Expr element = nullptr;   // table[bucket, head], an element of the table for some bucket
  unsigned bucketIndex = 0; // which index of `element` is the bucket
  llvm::SmallVector<int64_t> starts,
      rows; // the bucket is rows[k] below distance starts[k], and rows.back() from the last on
};

// `bias` as a function of the distance alone, nothing if it is none. `shifts`: what all keys of a query have in common may be left out,
// since it cancels in the softmax. `causal`: only distances from 0 on are read. Buckets hold for every distance below 2^31.
std::optional<PositionBias> readPositionBias(ExprContext &exprs, Expr bias, const ScorePlaces &places, bool shifts,
                                             bool causal);

// The op; null if its operand cannot be written.
mlir::Value emitPositionBias(mlir::OpBuilder &b, mlir::Location loc, ExprContext &exprs, const PositionBias &bias,
                             const ScorePlaces &places);

} // namespace heddle

#endif
