// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When the buffers of a graph are released.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHMEMORY_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHMEMORY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// Releases every buffer of `graph` that only views of it name directly behind the last op that uses one of them, and leaves to upstream's
// deallocation those that a loop or a branch hands on, or the function returns. An elementwise op writes into the buffer of an
// operand that nobody reads afterwards, where both are of one type and size.
void releaseAtLastUse(mlir::func::FuncOp graph);

} // namespace heddle

#endif
