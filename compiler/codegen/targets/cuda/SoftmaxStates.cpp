// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums are fma of products, so that no assembler may choose to round once where it rounds twice elsewhere.

#include "compiler/codegen/targets/cuda/SoftmaxStates.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

SoftmaxState heddle::beginState(GpuBuilder &b, const AttentionSpec &spec, Value sinks, Value head) {
  if (!spec.hasSinks)
    return {b.constantF32(lowestScore), b.constantF32(0)};
  Value sink = b.load(b.getF32Type(), b.at(sinks, head, 4));
  return {b.mulF(sink, b.constantF32(llvm::numbers::log2e)), b.constantF32(1)};
}

MergedState heddle::mergeStates(GpuBuilder &b, SoftmaxState total, SoftmaxState split) {
  MergedState merged;
  merged.state.max = b.maxF(total.max, split.max);
  merged.keep = b.exp2(b.subF(total.max, merged.state.max));
  merged.take = b.exp2(b.subF(split.max, merged.state.max));
  merged.state.sum = merged.value(b, total.sum, split.sum);
  return merged;
}

Value MergedState::value(GpuBuilder &b, Value total, Value split) const {
  return b.fma(total, keep, b.mulF(split, take));
}
