// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a graph calls of the runtime (runtime/model/ModelAbi.h, heddle_graph_call).
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHRUNTIME_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHRUNTIME_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

enum class RuntimeCall { Allocate, Release, Fail, Parallel, Observe };

// Calls back through `call` with what the callback takes behind it; the result of Allocate, else null.
mlir::Value callRuntime(mlir::OpBuilder &b, mlir::Location loc, mlir::Value call, RuntimeCall callback,
                        mlir::ValueRange arguments);

// What --profile is told of a task: its kernel's index in the library's records, -1: a loop that is no kernel's; its multiply-adds, f64, if they are
// counted.
struct ObservedTask {
  int64_t kernel = -1;
  mlir::Value work = {};
};

// Runs `task`, a function (memory, part, num_parts): its parts on all threads if `isShared`, else all of it here. The first argument
// of `graph` is the call.
void runTask(mlir::OpBuilder &b, mlir::Location loc, mlir::func::FuncOp graph, mlir::func::FuncOp task,
             mlir::Value memory, mlir::Value isShared, const ObservedTask &observed = {});

// Ends the call with `message` unless `condition` holds.
void requireInGraph(mlir::OpBuilder &b, mlir::Location loc, mlir::func::FuncOp graph, mlir::Value condition,
                    mlir::Value message);

} // namespace heddle

#endif
