// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions on f32 vectors, without calls.
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_VECTORMATH_H
#define HEDDLE_COMPILER_CODEGEN_CPU_VECTORMATH_H

#include "compiler/codegen/cpu/RawBuilder.h"

namespace heddle {

// 2^x for x <= 127 within 1.3 units in the last place; 0 below -126, exactly 1 at 0, NaN for NaN.
mlir::Value emitExp2(RawBuilder &builder, mlir::Value x);

// tanh(x) given z = 2 log2(e) x, within a few units in the last place near 0 as well.
mlir::Value emitTanhOfExponent(RawBuilder &builder, mlir::Value z);

} // namespace heddle

#endif
