// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a graph: each `flash_attention` becomes a call of a kernel (targets/cpu/FlashAttention.h), shared by the threads.
#ifndef HEDDLE_COMPILER_CODEGEN_HOST_GRAPHATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_HOST_GRAPHATTENTION_H

#include "compiler/codegen/machine/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

// Replaces every `flash_attention` on buffers in `graph`. The first argument of `graph` is the call.
void lowerFlashAttention(mlir::func::FuncOp graph, const CpuTarget &target);

} // namespace heddle

#endif
