// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the raise stage; Passes.td describes each.
#ifndef HEDDLE_COMPILER_RAISE_PASSES_H
#define HEDDLE_COMPILER_RAISE_PASSES_H

#include "compiler/contract/StagePass.h"
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

// Why a graph is no decoder, on its function, as text.
constexpr llvm::StringLiteral noDecoderAttr = "heddle.no_decoder";

} // namespace heddle

#endif
