// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Routing of tokens to experts.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ROUTEEXPERTS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ROUTEEXPERTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

struct MoeRouteSpec {
  int64_t numExperts = 0;
  int64_t topK = 0;           // experts per token, at most numExperts
  bool normalize = false;     // weights of a token are divided by their sum (norm_topk_prob)
  float scale = 1;            // and multiplied by this (routed_scaling_factor)
  bool sigmoid = false;       // weights are sigmoids of the logits instead of their softmax
  bool hasCorrection = false; // experts are chosen by weight + correction
  // Experts of the topGroups best of numGroups groups take part: by their greatest score, or with a correction by the sum
  // of the two greatest; others are not chosen.
  int64_t numGroups = 1, topGroups = 1;
};

// Adds to `module`
//   void name(const float *logits,  // (rowEnd, numExperts)
//             const float *correction, // (numExperts), or null without hasCorrection
//             int32_t *experts,     // (rowEnd, topK): the greatest scores, descending; of equal ones the lower index
//             float *weights,       // (rowEnd, topK): their softmax over all experts (or sigmoid), in f32
//             int64_t rowBegin, int64_t rowEnd)
mlir::func::FuncOp buildMoeRoute(mlir::ModuleOp module, llvm::StringRef name, const MoeRouteSpec &spec);

// Adds to `module`
//   void name(const int32_t *experts, const float *weights,  // (rows, topK), from the kernel above
//             int32_t *offsets,   // (numExperts + 1): expert e has list entries [offsets[e], offsets[e + 1])
//             int32_t *rowIndex,  // (rows * topK): the rows of each expert, ascending
//             float *rowScale,    // (rows * topK): the weight of the expert for that row
//             int64_t rows)
// which one thread calls. rowIndex + offsets[e] and rowScale + offsets[e] are what a MatmulRows::Gathered or Scattered
// product of expert e wants.
mlir::func::FuncOp buildMoeGroup(mlir::ModuleOp module, llvm::StringRef name, const MoeRouteSpec &spec);

} // namespace heddle

#endif
