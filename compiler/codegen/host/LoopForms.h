// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the innermost loops of a linalg.generic on buffers are, as its indexing maps and its body say: how GraphRows.h writes them.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_LOOPFORMS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_LOOPFORMS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

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

// How an operand, a buffer, moves along the innermost loop.
enum class Access { Uniform, Contiguous, Gathered };
Access accessOf(mlir::linalg::GenericOp op, mlir::OpOperand &operand);

// One output of a reduction: out = combiner(out, term).
struct Combination {
  mlir::Operation *op = nullptr;
  mlir::Value term;
};
// What `output` sums, if its only use is a combination whose order nobody fixed.
Combination combinationOf(mlir::linalg::GenericOp op, unsigned output);

} // namespace heddle

#endif
