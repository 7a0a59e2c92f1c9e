// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes rows of a ragged batch of what a function computes on (batch, sequence), for `heddle-flatten-batch`.
#ifndef HEDDLE_COMPILER_OPTIMIZE_RAGGEDREWRITER_H
#define HEDDLE_COMPILER_OPTIMIZE_RAGGEDREWRITER_H

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace heddle {

// Whether the call runs a layer that attends.
bool runsAttention(mlir::func::CallOp call);

// Rewrites one function. Behind the positions it takes what attention needs: of a step the cache and, in a layer, the layer's index in
// it; of an encode, which has no cache, the sequences.
class RaggedRewriter {
public:
  // `cacheType`: null for an encode. `head`: where @forward starts to compute the logits of a step.
  RaggedRewriter(mlir::func::FuncOp func, KvCacheType cacheType, LinearOp head)
      : func(func), b(func.getContext()), cacheType(cacheType), head(head) {}

  mlir::LogicalResult run(bool isEntry);

private:
  bool isStep() const { return bool(cacheType); }
  mlir::Block *beginBlock(bool isEntry, llvm::SmallVectorImpl<mlir::Type> &inputs);
  mlir::LogicalResult rewrite(mlir::Operation *op);
  // Checks that `op` can be computed step by step; it is then the layer's one attention.
  mlir::LogicalResult beginAttention(mlir::Operation *op);
  mlir::LogicalResult rewriteAttention(AttentionOp op);
  mlir::LogicalResult rewriteLatentAttention(LatentAttentionOp op);
  mlir::LogicalResult rewriteCall(mlir::func::CallOp op);
  void rewriteExpand(mlir::tensor::ExpandShapeOp op);
  void rewriteCollapse(mlir::tensor::CollapseShapeOp op);
  void rewriteRope(RopeOp op);
  void rewriteSplat(mlir::tensor::SplatOp op);
  void rewriteColumns(mlir::tensor::ExtractSliceOp op);
  mlir::LogicalResult rewriteFirstTokens(mlir::tensor::ExtractSliceOp op);
  mlir::Value transpose(mlir::Location loc, mlir::Value input, llvm::ArrayRef<int64_t> permutation);
  // (1, heads, rows, head_dim) -> (rows, heads * head_dim)
  mlir::Value toRows(mlir::Location loc, mlir::Value heads);
  mlir::LogicalResult selectOutputs();

  mlir::func::FuncOp func;
  mlir::OpBuilder b;
  KvCacheType cacheType;
  LinearOp head;
  mlir::IRMapping map;
  mlir::Value cache, layer, sequences, outputRows, lastHiddenState;
  bool hasAttention = false;
};

} // namespace heddle

#endif
