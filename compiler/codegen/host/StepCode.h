// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step and encode functions: what every worker thread runs.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_STEPCODE_H
#define HEDDLE_COMPILER_CODEGEN_HOST_STEPCODE_H

#include "compiler/codegen/host/KernelLibrary.h"

#include "mlir/IR/OwningOpRef.h"

namespace heddle {

// A module in the `llvm` dialect that defines heddle_step and heddle_encode (heddle_step_function of runtime/model/ModelAbi.h), which run @step
// and @encode of `source`, a module after plan-memory that has one or both: for each kernel this thread's share of the work, then a barrier.
// Work is divided by rows, panels of output columns, or attention tiles; never so that a result would depend on the number of threads.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> buildStepCode(mlir::ModuleOp source, KernelLibrary &kernels,
                                                                 const Target &target);

} // namespace heddle

#endif
