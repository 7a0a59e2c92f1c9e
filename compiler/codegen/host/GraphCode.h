// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code of a graph: upstream's linalg as loops, and the function that the runtime calls.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHCODE_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHCODE_H

#include "compiler/codegen/host/KernelLibrary.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle {

// Registers the interfaces that lowering a graph needs.
void registerGraphCodeModels(mlir::DialectRegistry &registry);

// A module in the `llvm` dialect that defines `symbol` (heddle_graph_function of runtime/model/ModelAbi.h), which runs `graph`, an entry of
// a module after bufferize. Every buffer comes from the call's allocate; run-time checks end in its fail. The kernels that its ops ask
// for are emitted into the library's module of code, with tasks that call them: this one declares the tasks alone.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> buildGraphCode(mlir::func::FuncOp graph, llvm::StringRef symbol,
                                                                  KernelLibrary &kernels, const CpuTarget &target);

} // namespace heddle

#endif
