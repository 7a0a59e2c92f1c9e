// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops in a graph: the same kernels that a step launches, on buffers whose sizes are known when they run.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHKERNELS_H

#include "compiler/codegen/host/KernelLibrary.h"

namespace heddle {

// Gives operands of kernel ops whose columns do not lie side by side a copy in which they do. Before buffers get their ends.
void gatherKernelOperands(mlir::func::FuncOp graph);

// Kernel ops of `graph`, and its contractions that are products, become calls of tasks (GraphLauncher.h), on all threads where that pays.
mlir::LogicalResult lowerKernels(mlir::func::FuncOp graph, KernelLibrary &kernels);

} // namespace heddle

#endif
