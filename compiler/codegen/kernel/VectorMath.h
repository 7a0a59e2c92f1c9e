// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions of f32 without calls or branches: the one library of every emitter for CPUs. An operand is a number or a
// vector of any number of lanes, and a lane's bits depend on that lane alone. A unit in the last place (ulp) is that of the exact
// result; bounds are tested over the whole range in test/execute/VectorMathTest.cpp. A NaN gives a NaN.
#ifndef HEDDLE_COMPILER_CODEGEN_KERNEL_VECTORMATH_H
#define HEDDLE_COMPILER_CODEGEN_KERNEL_VECTORMATH_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"

namespace heddle {

// e^x and 2^x for any x within 2 ulp, denormal results included.
mlir::Value emitExp(mlir::ImplicitLocOpBuilder &b, mlir::Value x);
mlir::Value emitExp2OfAny(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// The cheaper forms of kernels, within 2 ulp: 2^x for x <= 127, 0 below -126 and exactly 1 at 0; e^x for x <= 0, 0 below -87.
mlir::Value emitExp2(mlir::ImplicitLocOpBuilder &b, mlir::Value x);
mlir::Value emitExpOfNegative(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// e^x - 1 within 3 ulp, near 0 as well.
mlir::Value emitExpm1(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// Natural and binary logarithm within 2 ulp, of denormals as well; -inf of 0, NaN of negative numbers.
mlir::Value emitLog(mlir::ImplicitLocOpBuilder &b, mlir::Value x);
mlir::Value emitLog2(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// log(1 + x) within 3 ulp, near 0 as well.
mlir::Value emitLog1p(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// tanh(x) within 4 ulp, near 0 as well.
mlir::Value emitTanh(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// tanh(x) within 3 ulp, given z = 2 log2(e) x: what a caller multiplies by anyway may hold the factor.
mlir::Value emitTanhOfExponent(mlir::ImplicitLocOpBuilder &b, mlir::Value z);

// 1 / (1 + e^-x) within 4 ulp above -87, 0 below.
mlir::Value emitSigmoid(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// erf(x) within 3 ulp.
mlir::Value emitErf(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// (1 + erf(x / sqrt 2)) / 2, the factor of GELU, within 1e-7.
mlir::Value emitNormalDistribution(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

// sin(x) and cos(x) within 2 ulp for |x| <= 2^40; of larger numbers a value in [-1, 1], of infinities NaN.
mlir::Value emitSin(mlir::ImplicitLocOpBuilder &b, mlir::Value x);
mlir::Value emitCos(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

} // namespace heddle

#endif
