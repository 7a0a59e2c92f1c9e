// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of one linalg.generic on buffers, its innermost loop in vectors.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHROWS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHROWS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

// The steps begin … end - 1 of a loop; indices.
struct LoopBounds {
  mlir::Value begin, end;
};

// How the innermost loop of an op runs: element by element; `lanes` elements at a time, each written where it belongs; or as sums
// (products, maxima, …) of several vectors that become one number at the end.
enum class InnermostLoop { Scalar, Parallel, Reduction };
InnermostLoop innermostLoopOf(mlir::linalg::GenericOp op);

// The first of the innermost loops of `op` that have no loop in code: those that copy few elements. Their bounds are to stay constants.
unsigned writtenOutFrom(mlir::linalg::GenericOp op);

// The first of the loops before the innermost one whose steps are written out as terms of a sum that stays in registers: reductions of few steps
// in a row, as over the places of a convolution's window; the number of loops if there are none. emitInnerLoops() runs several steps of the loop
// before them at once, if it is left to it.
unsigned termsFrom(mlir::linalg::GenericOp op);

// Writes, where `b` stands, those loops of `op` that lie within its first outer.size() ones, whose indices are `outer`; `bounds` has
// an entry for each of its loops. An element's bits depend on neither bounds of parallel loops nor on where the loop is cut: partial
// sums of a reduction belong to fixed terms.
void emitInnerLoops(mlir::OpBuilder &b, mlir::linalg::GenericOp op, mlir::ValueRange outer,
                    llvm::ArrayRef<LoopBounds> bounds, int64_t lanes);

} // namespace heddle

#endif
