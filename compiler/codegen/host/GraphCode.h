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
// a module after bufferize. Every buffer comes from the call's allocate; run-time checks end in its fail. Kernels that its kernel ops
// ask for are in the module as well; what the package says of them is added to `records`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> buildGraphCode(mlir::func::FuncOp graph, llvm::StringRef symbol,
                                                                  const Target &target,
                                                                  std::vector<KernelRecord> &records);

} // namespace heddle

#endif
