// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which functions of a module are called from outside, and how. A public function is an entry of the program: @step, which is @forward
// until it has its cache, takes the new tokens of a ragged batch; any other takes and gives tensors, as a graph does. Private functions
// are the layers that entries call, and the bodies of kernels.
#ifndef HEDDLE_DIALECT_ENTRIES_H
#define HEDDLE_DIALECT_ENTRIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// @step, or @forward where the module has no cache yet; null in a program without one.
mlir::func::FuncOp stepEntry(mlir::ModuleOp module);

bool isGraphEntry(mlir::func::FuncOp func);
// Whether `op` belongs to a graph entry: it is one, or lies in one.
bool isInGraphEntry(mlir::Operation *op);
// In the order of the module.
llvm::SmallVector<mlir::func::FuncOp> graphEntries(mlir::ModuleOp module);

} // namespace heddle

#endif
