// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations from f32 to the int8 codes that MatmulActivation::Q8 products read.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_QUANTIZEKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_QUANTIZEKERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// Adds to `module`
//   void name(const float *in,    // (rowEnd, K), row stride inStride elements
//             int8_t *codes,      // (rowEnd, K), row stride K
//             float *scales,      // (rowEnd, K / 32)
//             int32_t *sums,      // (rowEnd, K / 16): sums of 16 codes
//             int64_t rowBegin, int64_t rowEnd, int64_t inStride)
// For each 32 values: scale = max |x| / 127, code = x * (127 / max |x|) rounded to nearest, ties to even. Blocks whose
// largest magnitude is below 1e-30 become zero. A NaN makes its block's scale NaN, an infinity makes it infinite. `k`
// is a multiple of 32.
mlir::func::FuncOp buildQuantizeRows(mlir::ModuleOp module, llvm::StringRef name, int64_t k);

} // namespace heddle

#endif
