// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that write elements one by one, as frontends emit them: a list of the places at which a mask is true, and updates of a tensor.
#ifndef HEDDLE_COMPILER_RAISE_WRITELOOPS_H
#define HEDDLE_COMPILER_RAISE_WRITELOOPS_H

#include "compiler/raise/ElementTrace.h"

namespace heddle {

// The mask whose true places `value` lists in row-major order, (rank of the mask, places), as ONNX's NonZero does. Null where it is no such list.
mlir::Value listedMask(mlir::Value value);

// updates[indices] written to [places] of a tensor, for all indices in row-major order.
struct WrittenElements {
  mlir::Value init, updates;
  llvm::SmallVector<mlir::Value> indices, places; // scalars in the loops
  bool adds;                                      // to what is there; else it is replaced
};

std::optional<WrittenElements> writtenElements(mlir::Value value);

// Element [indices] of `value` where a part of a tensor is replaced by updates, each at its own index plus a constant; null for others.
Expr writtenElement(ElementTrace &trace, mlir::Value value, llvm::ArrayRef<Expr> indices);

} // namespace heddle

#endif
