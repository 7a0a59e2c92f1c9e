// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a graph's code meets the runtime: the entry function and the calls back (runtime/model/ModelAbi.h, heddle_graph_call).
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHENTRY_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHENTRY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

enum class RuntimeCall { Allocate, Release, Fail, Parallel };

// Calls back through `call` with what the callback takes behind it; the result of Allocate, else null.
mlir::Value callRuntime(mlir::OpBuilder &b, mlir::Location loc, mlir::Value call, RuntimeCall callback,
                        mlir::ValueRange arguments);

// Runs `task`, a function (memory, part, num_parts): its parts on all threads if `isShared`, else all of it here. The first argument
// of `graph` is the call.
void runTask(mlir::OpBuilder &b, mlir::Location loc, mlir::func::FuncOp graph, mlir::func::FuncOp task,
             mlir::Value memory, mlir::Value isShared);

// Ends the call with `message` unless `condition` holds.
void requireInGraph(mlir::OpBuilder &b, mlir::Location loc, mlir::func::FuncOp graph, mlir::Value condition,
                    mlir::Value message);

// Adds `symbol` to `code`, whose llvm function @graph takes the call, the parts of each of `inputs` and of the weights, and
// returns descriptors of `outputs`; sends @graph's allocations to the runtime.
mlir::LogicalResult addGraphEntry(mlir::ModuleOp code, llvm::StringRef symbol, llvm::ArrayRef<mlir::MemRefType> inputs,
                                  llvm::ArrayRef<mlir::MemRefType> outputs);

} // namespace heddle

#endif
