// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors as functions of an index. Ops that only move elements (expand, collapse, slice, transpose, concat) change
// the index and compute nothing, so they cost nothing.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_TENSORVIEW_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_TENSORVIEW_H

#include "compiler/codegen/halide/Algorithms.h"

#include "mlir/IR/BuiltinTypes.h"

#include <functional>

namespace heddle {

// The element at an index, outermost dimension first, as in MLIR.
using ReadFn = std::function<Halide::Expr(llvm::ArrayRef<Halide::Expr>)>;

struct TensorView {
  ReadFn read;
  Contiguity contiguity;
};

// Whether the op only moves elements. Its one result is then given by viewOf.
bool isView(mlir::Operation *op);
// `maxRows`: the most that a dynamic dimension is.
mlir::FailureOr<TensorView> viewOf(mlir::Operation *op, int64_t maxRows,
                                   llvm::function_ref<const TensorView &(mlir::Value)> operand);

// The contiguity of a tensor that can be read in any way.
Contiguity unconstrained(mlir::RankedTensorType type);
// Of what reads two tensors at the same index.
Contiguity meet(Contiguity a, Contiguity b);

} // namespace heddle

#endif
