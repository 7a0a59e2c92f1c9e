// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How this stage says why it left something as it was, and cleans up after what it replaced.
#ifndef HEDDLE_COMPILER_RAISE_REMARKS_H
#define HEDDLE_COMPILER_RAISE_REMARKS_H

#include "compiler/raise/Expr.h"

#include "mlir/IR/Operation.h"

namespace heddle {

// 'linalg.transpose' at model.onnx:/layers.3/Transpose
std::string describe(mlir::Operation *op);

// What an expression is, for a person: a few words that name the op or argument it comes from, never all of it.
std::string inWords(Expr expr);

// Why `operand[indices]`, a function of `axes`, is no tensor of those axes: the op on the way to its source that first mixes
// `sequence` with another axis, or at which it ends.
std::string blockingOp(ExprContext &exprs, mlir::Value operand, llvm::ArrayRef<Expr> indices, llvm::ArrayRef<Expr> axes,
                       Expr sequence);

// Replaces reshapes, transposes, slices and casts that together move nothing by what they start from.
void foldIdentityLayouts(mlir::Operation *root);

// Whether only ops that were replaced read its result.
bool isDead(mlir::Operation *op);
// Erases ops without effect whose results nobody reads.
void eraseDeadOps(mlir::Operation *root);

} // namespace heddle

#endif
