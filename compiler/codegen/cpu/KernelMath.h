// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions of 16 f32 lanes for the kernels of this folder, without calls.
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_KERNELMATH_H
#define HEDDLE_COMPILER_CODEGEN_CPU_KERNELMATH_H

#include "compiler/codegen/cpu/KernelBuilder.h"

namespace heddle {

// e^x for x <= 0, within 2 units in the last place; 0 below -87. A NaN stays one.
mlir::Value expOfNegative(KernelBuilder &b, mlir::Value x);

// 1 / (1 + e^-x) for any x.
mlir::Value sigmoid(KernelBuilder &b, mlir::Value x);

// (1 + erf(x / sqrt 2)) / 2 for any x, within 1e-7.
mlir::Value normalDistribution(KernelBuilder &b, mlir::Value x);

} // namespace heddle

#endif
