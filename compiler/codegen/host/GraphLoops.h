// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of a graph as functions, shared by the threads.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHLOOPS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHLOOPS_H

#include "compiler/codegen/machine/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

// Whether the threads may share the loops of `op`, if they are enough work: each of its outputs is written along a parallel loop, so
// that each element is computed by one thread, in the order of one thread.
bool canShareLoops(mlir::linalg::GenericOp op);

// Makes functions of the loops of `graph`, one for neighbouring ops that walk the same rows, and calls of them in their place, by all
// threads where there is work enough. The first argument of `graph` is the call. The functions, which neither allocate nor assert.
llvm::SmallVector<mlir::func::FuncOp> shareLoops(mlir::func::FuncOp graph, const CpuTarget &target);

} // namespace heddle

#endif
