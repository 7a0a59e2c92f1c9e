// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an element of a tensor is: follows a value through reshapes, transposes, slices, broadcasts, gathers, comparisons and
// arithmetic back to where it comes from. Every recogniser of this stage asks this, never which ops were used.
#ifndef HEDDLE_COMPILER_RAISE_ELEMENTTRACE_H
#define HEDDLE_COMPILER_RAISE_ELEMENTTRACE_H

#include "compiler/raise/Expr.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <map>

namespace heddle {

// How far back a trace goes. It always ends at arguments, weights, products of matrices, unless one of them is constant, model ops and ops it
// does not know, and where more than 4000 ops lie between: a graph may be a chain of any length.
enum class TraceDepth {
  Everything, // through arithmetic
  Layout,     // through what only moves elements, casts floats to floats, decides between two, or scales by a constant
  Moves       // through what only moves elements
};

class ElementTrace {
public:
  explicit ElementTrace(ExprContext &exprs, TraceDepth depth = TraceDepth::Everything) : exprs(exprs), depth(depth) {}

  // Values at which the trace also ends.
  void stopAt(mlir::Value value) { stops.insert(value); }

  // Element [indices] of `value`; a scalar has no indices.
  Expr element(mlir::Value value, llvm::ArrayRef<Expr> indices = {});
  Expr size(mlir::Value value, int64_t dimension);
  // One symbol per dimension of `value`, numbered from `first`.
  llvm::SmallVector<Expr> indexSymbols(mlir::Value value, int64_t first = 0);

  ExprContext &context() { return exprs; }

private:
  Expr compute(mlir::Value value, llvm::ArrayRef<Expr> indices);
  Expr layout(mlir::Operation *op, mlir::Value value, llvm::ArrayRef<Expr> indices);
  Expr structured(mlir::linalg::LinalgOp op, unsigned result, llvm::ArrayRef<Expr> indices);
  Expr reshaped(mlir::Value source, Expr linear, llvm::ArrayRef<int64_t> dimensions,
                llvm::SmallVectorImpl<Expr> &indices);
  Expr constantElement(mlir::Value value, mlir::DenseElementsAttr elements, llvm::ArrayRef<Expr> indices);
  Expr concatenated(mlir::tensor::ConcatOp op, llvm::ArrayRef<Expr> indices);
  Expr padded(mlir::tensor::PadOp op, llvm::ArrayRef<Expr> indices);
  Expr loopExtent(mlir::linalg::LinalgOp op, unsigned loop);
  Expr affine(mlir::AffineExpr expr, llvm::ArrayRef<Expr> loops);
  // A region's scalar, its arguments and indices bound.
  Expr scalar(mlir::Value value, llvm::DenseMap<mlir::Value, Expr> &bound, llvm::ArrayRef<Expr> loops);
  Expr opElement(mlir::Operation *op, llvm::function_ref<Expr(mlir::Value)> operand);
  Expr foldResult(mlir::OpFoldResult value);

  ExprContext &exprs;
  TraceDepth depth;
  llvm::DenseSet<mlir::Value> stops;
  std::map<std::pair<void *, llvm::SmallVector<Expr>>, Expr> memo;
  unsigned nesting = 0;
  unsigned level = 0; // ops between the value that was asked for and the one that is looked at
};

// Element `position`, in row-major order, of a constant.
double valueAt(mlir::DenseElementsAttr elements, int64_t position);
// The place of the element at constant indices, in row-major order; nothing if they are no constants within `shape`.
std::optional<int64_t> positionOf(llvm::ArrayRef<Expr> indices, llvm::ArrayRef<int64_t> shape);
// sum over k of a[..., k] * b[..., k]: linalg.contract, matmul and generic ops that compute it.
bool isContraction(mlir::Operation *op);
// A scalar op's result from its operands' expressions; null for an op that has no meaning here.
Expr scalarOp(ExprContext &exprs, mlir::Operation *op, llvm::ArrayRef<Expr> operands);

} // namespace heddle

#endif
