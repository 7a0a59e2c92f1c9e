// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of each expert's weights with the rows that chose it: those of `packed_matmul`, with a list of rows.

#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"

using namespace mlir;
using namespace heddle;

std::unique_ptr<KernelEmitter> heddle::cpu::expertMatmul(const CpuTarget &target) {
  return std::make_unique<MatmulKernelEmitter<ExpertMatmulOp>>(target);
}
