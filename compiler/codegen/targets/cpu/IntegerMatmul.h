// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of bytes whose sums stay 32-bit integers: out = (act - zero) W^T modulo 2^32.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_INTEGERMATMUL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_INTEGERMATMUL_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/machine/Target.h"
#include "dialect/ScheduleAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// Adds to `module` the function `name`, called with an IntegerMatmulCall, which computes output columns [16 panelBegin, min(16 panelEnd, N)) of
// every row. It takes up to 300 KiB of stack, and more where 16 rows of K bytes do.
mlir::func::FuncOp buildIntegerMatmul(mlir::ModuleOp module, llvm::StringRef name, const IntegerMatmulSpec &spec,
                                      ScheduleAttr schedule, const CpuTarget &target);

} // namespace heddle

#endif
