// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The function of a graph, which one thread runs: it may branch on data, ask for memory and fail.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHCODE_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHCODE_H

#include "compiler/codegen/host/KernelLibrary.h"

#include "mlir/IR/OwningOpRef.h"

namespace heddle {

// A module in the `llvm` dialect that defines `symbol` (heddle_graph_function of runtime/model/ModelAbi.h), which runs `graph`, an entry of
// a module after bufferize. Every buffer comes from the call's allocate; run-time checks end in its fail. Kernels run as tasks, which the
// library's module of code has.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> buildGraphCode(mlir::func::FuncOp graph, llvm::StringRef symbol,
                                                                  KernelLibrary &kernels, const Target &target);

} // namespace heddle

#endif
