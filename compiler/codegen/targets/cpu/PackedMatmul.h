// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of activations with a packed weight matrix: out = act W^T [+ bias] [activation] [+ out].
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PACKEDMATMUL_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_PACKEDMATMUL_H

#include "compiler/codegen/Target.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// How activations come. Bf16: weights are bf16 as well, those of quantised files rounded to it, and sums are f32. Q8: int8
// codes in [-127, 127] with a f32 scale per 32 values, and the sum of every 16 codes.
enum class MatmulActivation : uint8_t { F32, Bf16, Q8 };

// Which rows of `act` and `out` the kernel's row r stands for. Gathered: act row rowIndex[r], out row r. Scattered: act
// row r, and out row rowIndex[r] += rowScale[r] * (product + bias).
enum class MatmulRows : uint8_t { Dense, Gathered, Scattered };

// What is made of a finished sum. Gated: W holds 2 N rows, packed with PanelOrder::Interleaved from the gate's and the
// up projection's, and out = activation(gate) * up.
enum class MatmulEpilogue : uint8_t {
  None,
  Silu,
  GeluTanh,
  GatedSilu,
  GatedGelu,
  GatedGeluTanh,
  GatedRelu,
  GatedQuickGelu,
  GatedTanh
};

struct MatmulSpec {
  PackedLayout layout;
  int64_t n = 0; // out_features
  int64_t k = 0; // in_features; Bf16: even; Q8: a multiple of 32
  MatmulActivation activation = MatmulActivation::F32;
  bool hasBias = false;
  bool accumulate = false; // out += product (+ bias): a residual
  MatmulRows rows = MatmulRows::Dense;
  MatmulEpilogue epilogue = MatmulEpilogue::None; // after the bias, before the residual; gated: no bias

  bool isGated() const { return epilogue >= MatmulEpilogue::GatedSilu; }
};

// Adds to `module`
//   void name(const void *act,            // (rows, K) f32, bf16 or int8, row stride actStride elements
//             const float *actScales,     // Q8: (rows, K / 32), else unused
//             const int32_t *actSums,     // Q8: (rows, K / 16), else unused
//             const uint8_t *weights,     // the packed matrix, 64-byte aligned
//             const float *bias,          // (N) with hasBias, else unused
//             float *out,                 // (rows, N), row stride outStride elements
//             int64_t rows, int64_t actStride, int64_t outStride, int64_t panelBegin, int64_t panelEnd
//             [, const int32_t *rowIndex, const float *rowScale])  // not Dense: (rows)
// which computes output columns [16 panelBegin, min(16 panelEnd, N)) of every row. An element's bits depend on its row
// of `act` and of W alone: not on `rows`, the slice of panels, the row's place nor, but for Bf16, the target. It takes up
// to 128 KiB of stack.
// Panels are those of `out`: gated, a pair of W's. Fails, with an error at the module, for Q8 activations with weights
// that are not quantised, Bf16 ones with weights that are neither quantised nor bf16, and for a gated product with bias.
mlir::FailureOr<mlir::func::FuncOp> buildMatmul(mlir::ModuleOp module, llvm::StringRef name, const MatmulSpec &spec,
                                                const CpuTarget &target);

} // namespace heddle

#endif
