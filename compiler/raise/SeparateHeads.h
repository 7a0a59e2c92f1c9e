// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_COMPILER_RAISE_SEPARATEHEADS_H
#define HEDDLE_COMPILER_RAISE_SEPARATEHEADS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// Where one matmul gives each head's query, key and value beside each other, (heads, q | k | v) as GPT-NeoX and BLOOM store them, an
// attention's operands become matmuls of their own with the rows of their heads: kernels read heads that lie side by side.
void separateHeads(mlir::func::FuncOp graph);

} // namespace heddle

#endif
