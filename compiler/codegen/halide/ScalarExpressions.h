// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The scalar functions that kernels apply to each element, in f32 arithmetic without a call to libm. Every step is a
// single correctly rounded operation, so that a vector lane, a scalar tail and every target give the same bits.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_SCALAREXPRESSIONS_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_SCALAREXPRESSIONS_H

#include "dialect/HeddleDialect.h"

#include "Halide.h"

namespace heddle {

Halide::Expr expExpr(Halide::Expr x);
Halide::Expr logExpr(Halide::Expr x);
// log(1 + x), near 0 as well.
Halide::Expr log1pExpr(Halide::Expr x);
Halide::Expr tanhExpr(Halide::Expr x);
Halide::Expr erfExpr(Halide::Expr x);
// |x| < 2^30.
Halide::Expr sinExpr(Halide::Expr x);
Halide::Expr cosExpr(Halide::Expr x);
Halide::Expr powExpr(Halide::Expr x, Halide::Expr y);
Halide::Expr activationExpr(ActivationKind kind, Halide::Expr x);

// The Halide type of a tensor's elements; undefined (zero bits) if there is none.
Halide::Type halideType(mlir::Type type);

// A scalar constant; undefined if it is no number.
Halide::Expr constantExpr(mlir::Attribute value);

// What an arith or math op computes from scalar operands; an undefined Expr for an op that is not in the table.
Halide::Expr scalarExpr(mlir::Operation *op, llvm::ArrayRef<Halide::Expr> operands);

} // namespace heddle

#endif
