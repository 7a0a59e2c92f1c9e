// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the schedule stage that only graphs take; GraphPasses.td describes each.
#ifndef HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_H
#define HEDDLE_COMPILER_SCHEDULE_GRAPHPASSES_H

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/schedule/GraphPasses.h.inc"

} // namespace heddle

#endif
