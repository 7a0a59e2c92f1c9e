// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations from f32 to the int8 codes that MatmulActivation::Q8 products read.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_QUANTIZEKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_QUANTIZEKERNEL_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

struct QuantizeCall {
  mlir::Value in;     // const float *, (rowEnd, K), rows inStride elements apart
  mlir::Value codes;  // int8_t *, (rowEnd, K)
  mlir::Value scales; // float *, (rowEnd, K / 32)
  mlir::Value sums;   // int32_t *, (rowEnd, K / 16): sums of 16 codes
  mlir::Value rowBegin, rowEnd;
  mlir::Value inStride;

  static constexpr Parameter<QuantizeCall> parameters[] = {
      {ParameterKind::Pointer, &QuantizeCall::in},     {ParameterKind::Pointer, &QuantizeCall::codes},
      {ParameterKind::Pointer, &QuantizeCall::scales}, {ParameterKind::Pointer, &QuantizeCall::sums},
      {ParameterKind::Size, &QuantizeCall::rowBegin},  {ParameterKind::Size, &QuantizeCall::rowEnd},
      {ParameterKind::Size, &QuantizeCall::inStride},
  };
};

// Adds to `module` the function `name`, called with a QuantizeCall.
// For each 32 values: scale = max |x| / 127, code = x * (127 / max |x|) rounded to nearest, ties to even. Blocks whose
// largest magnitude is below 1e-30 become zero. A NaN makes its block's scale NaN, an infinity makes it infinite. `k`
// is a multiple of 32.
mlir::func::FuncOp buildQuantizeRows(mlir::ModuleOp module, llvm::StringRef name, int64_t k);

// The bits of |x|, vector<16xi32>, which are in the order of the numbers; those of a NaN are the largest.
mlir::Value magnitudesOf(KernelBuilder &b, mlir::Value values);
// How values whose largest magnitudes are `magnitudes` become integers in [-largestCode, largestCode].
struct Rounding {
  mlir::Value inverse, scale;                                    // f32
  mlir::Value round(KernelBuilder &b, mlir::Value values) const; // vector<16xf32> to vector<16xi32>
};
Rounding roundingOf(KernelBuilder &b, mlir::Value magnitudes, float largestCode);

// 32 values as integers in [-largestCode, largestCode] with a scale: 2 x vector<16xi32>, f32.
struct QuantizedBlock {
  mlir::Value halves[2], scale;
};
QuantizedBlock quantizeBlock(KernelBuilder &b, mlir::Value in, float largestCode);

} // namespace heddle

#endif
