// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention within the sequences of a ragged batch: that of `flash_attention`, for one sequence after the other.

#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/FlashAttention.h"

using namespace heddle;

std::unique_ptr<KernelEmitter> heddle::cpu::raggedAttention(const CpuTarget &target) {
  return std::make_unique<TiledAttentionEmitter<RaggedAttentionOp>>(target, buildRaggedAttention);
}
