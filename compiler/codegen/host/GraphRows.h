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

// Writes, where `b` stands, those loops of `op` that lie within its first outer.size() ones, whose indices are `outer`; `bounds` has
// an entry for each of its loops. An element's bits depend on neither bounds of parallel loops nor on where the loop is cut: partial
// sums of a reduction belong to fixed terms.
void emitInnerLoops(mlir::OpBuilder &b, mlir::linalg::GenericOp op, mlir::ValueRange outer,
                    llvm::ArrayRef<LoopBounds> bounds, int64_t lanes);

} // namespace heddle

#endif
