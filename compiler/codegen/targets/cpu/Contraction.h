// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of f32 buffers whose sizes and strides are known when they run: those of graphs.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CONTRACTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CONTRACTION_H

#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// With the tile for many rows of a CPU's schedule for products, adds to `module` the function `name`, called with a ContractionCall, which
// computes its thread's share.
// Every element is one chain of fused multiply-adds along k, ascending, from what c held: its bits depend on neither the number
// of threads nor the other elements. It takes up to 64 KiB of stack.
mlir::func::FuncOp buildContraction(mlir::ModuleOp module, llvm::StringRef name, ScheduleAttr schedule);

} // namespace heddle

#endif
