// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Routing of tokens to experts.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ROUTEEXPERTS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ROUTEEXPERTS_H

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// Adds to `module` the function `name`, called with a RouteCall.
mlir::func::FuncOp buildMoeRoute(mlir::ModuleOp module, llvm::StringRef name, const MoeRouteSpec &spec);

// Adds to `module` the function `name`, called with a GroupCall,
// which one thread calls. rowIndex + offsets[e] and rowScale + offsets[e] are what a MatmulRows::Gathered or Scattered
// product of expert e wants.
mlir::func::FuncOp buildMoeGroup(mlir::ModuleOp module, llvm::StringRef name, const MoeRouteSpec &spec);

} // namespace heddle

#endif
