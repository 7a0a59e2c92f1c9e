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

// Whether `op` reads what earlier tokens have left: keys and values, latents, or a state.
inline bool readsPast(mlir::Operation *op) {
  return mlir::isa<AttentionOp, LatentAttentionOp, CausalConvOp, LinearAttentionOp>(op);
}

// Whether the call runs a layer with such an op.
bool runsAttention(mlir::func::CallOp call);

// The earlier call of a layer whose keys and values this one attends to; null where it has its own.
mlir::func::CallOp sharedFrom(mlir::func::CallOp call);

// The caches of a program. An encoder-decoder also has the keys and values of sources, one pair for each layer that attends to them, in the
// order of the calls.
struct RaggedCaches {
  llvm::SmallVector<KvCacheType> own; // of a step: one for the layers of each shape, in the order of a page
  KvCacheType cross;                  // null where there is none
  // By function: which of `own` it appends to and reads, at most one of tokens and one of states.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<KvCacheType>> ofLayer;
  llvm::DenseMap<mlir::Operation *, int64_t> stateOffsets; // of ops with a state, in their layer's
};

// Keys or values, (batch, heads, sequence, head_dim): those of a source, which an encoder gives, or of a layer that gives them to others, behind
// what it computes. The functions of a step take them behind what they compute on and positions, and read them where they are cached.
bool isHeads(mlir::Type type);
bool isGivenHeads(mlir::Value value);
// The same of what a call passes, and of what a layer gives.
llvm::SmallVector<mlir::Value> headsPassed(mlir::func::CallOp call);
llvm::SmallVector<mlir::Value> headsIn(mlir::ValueRange results);

// Rewrites one function. Behind the positions it takes what attention needs: of a step the caches and, in a layer, the layer's index behind each of
// its own; of an encode the sequences and, where it gives keys and values of sources, the cache that it appends them to.
class RaggedRewriter {
public:
  // `caches.own`: empty for an encode. `head`: where @forward starts to compute the logits of a step. `caches` outlive the object.
  RaggedRewriter(mlir::func::FuncOp func, const RaggedCaches &caches, LinearOp head)
      : func(func), b(func.getContext()), caches(caches), crossType(caches.cross), head(head) {}

  mlir::LogicalResult run(bool isEntry);

private:
  bool isStep() const { return !caches.own.empty(); }
  // The caches of a layer; a function that has none is given the first.
  llvm::SmallVector<KvCacheType> cachesOf(mlir::Operation *layer) const {
    llvm::SmallVector<KvCacheType> own = caches.ofLayer.lookup(layer);
    return own.empty() ? llvm::SmallVector<KvCacheType>{caches.own.front()} : own;
  }
  int64_t layerIndex(mlir::func::CallOp op, KvCacheType cache) const;
  // A layer's place in a cache.
  struct CachePlace {
    mlir::Value cache, layer;
    KvCacheType type() const { return mlir::cast<KvCacheType>(cache.getType()); }
  };
  // That of the layer's tokens, or of its state.
  CachePlace placeOf(bool state) const;
  // Those that a function of a step takes or gives no more, since a cache has them.
  llvm::SmallVector<mlir::Value> cached(const llvm::SmallVector<mlir::Value> &heads) const {
    return isStep() ? heads : llvm::SmallVector<mlir::Value>();
  }
  mlir::Block *beginBlock(bool isEntry, llvm::SmallVectorImpl<mlir::Type> &inputs);
  void addExtra(bool isEntry, llvm::function_ref<mlir::Value(mlir::Type)> add);
  mlir::LogicalResult rewrite(mlir::Operation *op);
  // Checks that `op` can be computed step by step; it is then the layer's one attention.
  mlir::LogicalResult beginAttention(mlir::Operation *op);
  mlir::LogicalResult rewriteAttention(AttentionOp op);
  mlir::LogicalResult rewriteCrossAttention(AttentionOp op);
  // Attention to keys and values of an earlier layer, which has appended them.
  mlir::LogicalResult rewriteSharedAttention(AttentionOp op);
  // The attention over the rows that `op` becomes.
  AttentionOp attend(AttentionOp op, mlir::Value keys, mlir::Value values);
  KvViewOp view(mlir::Location loc, const CachePlace &place);
  mlir::LogicalResult rewriteLatentAttention(LatentAttentionOp op);
  // `op` is causal_conv or linear_attention.
  template <typename Op> mlir::LogicalResult rewriteState(Op op);
  mlir::LogicalResult rewriteCall(mlir::func::CallOp op);
  mlir::LogicalResult rewriteReturn(mlir::func::ReturnOp op);
  mlir::LogicalResult rewriteGeneric(mlir::linalg::GenericOp op);
  void rewriteExpand(mlir::tensor::ExpandShapeOp op);
  void rewriteCollapse(mlir::tensor::CollapseShapeOp op);
  void rewriteRope(RopeOp op);
  void rewriteSplat(mlir::tensor::SplatOp op);
  void rewriteColumns(mlir::tensor::ExtractSliceOp op);
  mlir::LogicalResult rewriteTokensAt(mlir::tensor::ExtractSliceOp op);
  // (1, heads, rows, head_dim) -> (rows, heads * head_dim)
  mlir::Value toRows(mlir::Location loc, mlir::Value heads);
  mlir::LogicalResult selectOutputs();
  void appendSources(mlir::Operation *end);

  mlir::func::FuncOp func;
  mlir::OpBuilder b;
  const RaggedCaches &caches;
  KvCacheType crossType;
  LinearOp head;
  mlir::IRMapping map;
  llvm::SmallVector<CachePlace> places; // of @forward all caches, without a layer; of a layer its own
  mlir::Value cross, sequences, outputRows, lastHiddenState;
  bool isLayer = false; // of a step
  bool hasAttention = false, attendsToSource = false;
};

} // namespace heddle

#endif
