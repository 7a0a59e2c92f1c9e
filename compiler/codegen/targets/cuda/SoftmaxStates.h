// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How partial results of attention are merged, by log-sum-exp: the same arithmetic wherever they meet, so that they leave the same bits.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_SOFTMAXSTATES_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_SOFTMAXSTATES_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

// Of what a row saw of some keys: the largest score in units of log 2, and the sum of 2^(score - max). Beside it lie the values, weighted
// and added up.
struct SoftmaxState {
  mlir::Value max, sum;
};

// Below every score, and finite: its difference to itself is 0.
inline constexpr double lowestScore = -1e30;

// Of a row that saw no key yet; values are 0. `sinks`: const float *, (numHeads), with hasSinks.
SoftmaxState beginState(GpuBuilder &b, const AttentionSpec &spec, mlir::Value sinks, mlir::Value head);

// The state of what two saw, and what makes values of theirs: keep total + take split. One that saw nothing changes nothing.
struct MergedState {
  SoftmaxState state;
  mlir::Value keep, take;

  mlir::Value value(GpuBuilder &b, mlir::Value total, mlir::Value split) const;
};
MergedState mergeStates(GpuBuilder &b, SoftmaxState total, SoftmaxState split);

} // namespace heddle

#endif
