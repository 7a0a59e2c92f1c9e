// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How an expert's gate and up projection make its hidden activation, where that is no `glu`.
#ifndef HEDDLE_COMPILER_RAISE_GATING_H
#define HEDDLE_COMPILER_RAISE_GATING_H

#include "compiler/raise/Expr.h"
#include "dialect/HeddleDialect.h"

namespace heddle {

struct Gated {
  Expr gate = nullptr, up = nullptr; // elements: what is activated, and what multiplies it
  ActivationKind activation = ActivationKind::Silu;
  GatingAttr gating; // null: activation(gate) * up
};

// The gating that `hidden` is, a function of two elements for which `isProduct` holds, and of what is added to each of them. Its bounds are
// numbers that it holds; a formula that agrees inside of them, at them and beyond is taken. Nothing where none does.
std::optional<Gated> readGated(ExprContext &exprs, Expr hidden, llvm::function_ref<bool(Expr)> isProduct,
                               mlir::MLIRContext *context);

} // namespace heddle

#endif
