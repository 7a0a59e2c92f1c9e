// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one way in which stages write a transpose.
#ifndef HEDDLE_DIALECT_TRANSPOSED_H
#define HEDDLE_DIALECT_TRANSPOSED_H

#include "mlir/IR/Builders.h"

namespace heddle {

// The tensor whose dimension d is dimension permutation[d] of `tensor`; `tensor` itself where that changes nothing.
mlir::Value transposed(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor, llvm::ArrayRef<int64_t> permutation);

} // namespace heddle

#endif
