// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From what an element is back to ops: the one way in which this stage writes a layout or a computed tensor, whatever way the
// exporter took.
#ifndef HEDDLE_COMPILER_RAISE_ARRANGE_H
#define HEDDLE_COMPILER_RAISE_ARRANGE_H

#include "compiler/raise/Expr.h"

#include "mlir/IR/Builders.h"

namespace heddle {

// An axis of a tensor to write: its index and how many values it takes. An axis of extent 1 has index 0.
struct Axis {
  Expr index, extent;
};

// The tensor whose element at `axes` is `source[indices]`, where each index is a sum of axes with constant factors: at most
// one slice, expand_shape, transpose and slice, each only where needed. An axis that no index has is repeated along, or of size 1
// with `keepUnit`. Null, and `reason` set, if it cannot be written so.
mlir::Value arrange(mlir::OpBuilder &b, mlir::Location loc, ExprContext &exprs, mlir::Value source,
                    llvm::ArrayRef<Expr> indices, llvm::ArrayRef<Axis> axes, std::string &reason,
                    bool keepUnit = false);

// The reverse: a tensor of `type` whose element at index `outputs`, sums of `axes`, is element `axes` of `source`.
mlir::Value arrangeAs(mlir::OpBuilder &b, mlir::Location loc, ExprContext &exprs, mlir::Value source,
                      llvm::ArrayRef<Axis> axes, llvm::ArrayRef<Expr> outputs, mlir::RankedTensorType type,
                      std::string &reason);

// A linalg.generic that computes `expr` at `axes`; those that `expr` does not depend on have size 1 unless `repeats`. Null if
// `expr` holds what has no op here.
mlir::Value emitTensor(mlir::OpBuilder &b, mlir::Location loc, ExprContext &exprs, Expr expr, llvm::ArrayRef<Axis> axes,
                       mlir::Type elementType, bool repeats = false);
// `expr`, integers, as a tensor of i32: the tensor itself, narrowed, where `expr` is its element.
mlir::Value emitIntegers(mlir::OpBuilder &b, mlir::Location loc, ExprContext &exprs, Expr expr,
                         llvm::ArrayRef<Axis> axes);

// `expr`, a size or an index of loop indices that `symbols` gives, as ops; null if it holds what has no op.
mlir::Value emitIndex(mlir::OpBuilder &b, mlir::Location loc, Expr expr,
                      const llvm::DenseMap<Expr, mlir::Value> &symbols);

} // namespace heddle

#endif
