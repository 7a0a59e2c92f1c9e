// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectors of 16 lanes of two bf16, neighbours along K: what bf16 products multiply.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_BF16PAIRS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_BF16PAIRS_H

#include "compiler/codegen/machine/Target.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

namespace heddle {

// One instruction each where the target has avx512bf16, which takes subnormals for zero; elsewhere the same sums in plain
// arithmetic, slower than f32 products.
class Bf16Pairs {
public:
  Bf16Pairs(KernelBuilder &builder, const CpuTarget &target) : b(builder), hasDot(target.hasBf16Dot()) {}

  // Two vector<16xf32>, rounded to nearest even, as vector<16xi32>: `low` in the low halves. NaN stays NaN.
  mlir::Value round(mlir::Value low, mlir::Value high);
  // acc + high(x) high(y) + low(x) low(y), the high halves first.
  mlir::Value dot(mlir::Value acc, mlir::Value x, mlir::Value y);

private:
  mlir::Value roundHalf(mlir::Value real);

  KernelBuilder &b;
  const bool hasDot;
};

} // namespace heddle

#endif
