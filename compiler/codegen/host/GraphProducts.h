// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of a graph: contractions of f32 buffers become calls of one kernel (cpu/ProductKernel.h), shared by the threads.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHPRODUCTS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHPRODUCTS_H

#include "compiler/codegen/machine/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

// Whether `op` sums products of two f32 buffers and each of its loops is one of rows, columns, depth or repetition.
bool isProductKernel(mlir::linalg::GenericOp op);

// Replaces every such op in `graph` and leaves all others. The first argument of `graph` is the call.
void lowerProducts(mlir::func::FuncOp graph, const CpuTarget &target);

} // namespace heddle

#endif
