// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the raise stage; Passes.td describes each.
#ifndef HEDDLE_COMPILER_RAISE_PASSES_H
#define HEDDLE_COMPILER_RAISE_PASSES_H

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace heddle {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/raise/Passes.h.inc"

// Why attention was not found around a softmax, on that op; why a graph is no decoder, on its function. Both are text.
constexpr llvm::StringLiteral notFusedAttr = "heddle.not_fused";
constexpr llvm::StringLiteral noDecoderAttr = "heddle.no_decoder";

} // namespace heddle

#endif
