// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of activations with a packed weight matrix: out = act W^T [+ bias] [+ out].
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_MATMULKERNEL_H
#define HEDDLE_COMPILER_CODEGEN_CPU_MATMULKERNEL_H

#include "compiler/codegen/Target.h"
#include "compiler/codegen/cpu/PackedLayout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// How activations come. Q8: int8 codes in [-127, 127] with a f32 scale per 32 values, and the sum of every 16 codes.
enum class MatmulActivation : uint8_t { F32, Q8 };

struct MatmulSpec {
  PackedLayout layout;
  int64_t n = 0;  // out_features
  int64_t k = 0;  // in_features; Q8: a multiple of 32
  MatmulActivation activation = MatmulActivation::F32;
  bool hasBias = false;
  bool accumulate = false;  // out += product (+ bias): a residual
};

// Adds to `module`
//   void name(const void *act,            // (rows, K) f32 or int8, row stride actStride elements
//             const float *actScales,     // Q8: (rows, K / 32), else unused
//             const int32_t *actSums,     // Q8: (rows, K / 16), else unused
//             const uint8_t *weights,     // the packed matrix, 64-byte aligned
//             const float *bias,          // (N) with hasBias, else unused
//             float *out,                 // (rows, N), row stride outStride elements
//             int64_t rows, int64_t actStride, int64_t outStride, int64_t panelBegin, int64_t panelEnd)
// which computes output columns [16 panelBegin, min(16 panelEnd, N)) of every row. An element's bits depend on its row of
// `act` and of W alone: not on `rows`, the slice of panels, nor the row's place. Needs about 128 KiB of stack at most.
// Fails, with an error at the module, for Q8 activations with weights that are not quantised.
mlir::FailureOr<mlir::func::FuncOp> buildMatmul(mlir::ModuleOp module, llvm::StringRef name, const MatmulSpec &spec,
                                                const CpuTarget &target);

} // namespace heddle

#endif
