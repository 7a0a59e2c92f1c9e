// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the optimize stage; Passes.td describes each.
#ifndef HEDDLE_COMPILER_OPTIMIZE_PASSES_H
#define HEDDLE_COMPILER_OPTIMIZE_PASSES_H

#include "compiler/contract/StagePass.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/optimize/Passes.h.inc"

// On the module: the window of each layer of the cache in tokens, 0 where it sees all; absent where all see all.
constexpr llvm::StringLiteral kvWindowsAttr = "heddle.kv_windows";

} // namespace heddle

#endif
