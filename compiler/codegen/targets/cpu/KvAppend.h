// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the keys and values of a step into the pages of its sequences: the CPU body of `kv_append`.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KVAPPEND_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_KVAPPEND_H

#include "compiler/codegen/Target.h"
#include "compiler/codegen/RawBuilder.h"

namespace heddle {

struct KvAppendSpec {
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t valueHeadDim = 0; // 0: headDim
  KvType kv = KvType::BF16;
  // One head, whose rows in the page are its key and its value side by side: a latent and a rotary key, which may be
  // empty. vOffset is not read.
  bool isLatent = false;

  int64_t valueDim() const { return valueHeadDim || isLatent ? valueHeadDim : headDim; }
};

// void name(const float *key,        // (rows, numKvHeads * headDim), rows keyStride floats apart
//           const float *value,      // (rows, numKvHeads * valueHeadDim), rows valueStride floats apart
//           int64_t keyStride, int64_t valueStride,
//           const int32_t *rowSequence, const int32_t *cachePositions,  // (rows)
//           const heddle_sequence *sequences,
//           int64_t kOffset, int64_t vOffset,   // bytes of this layer's K and V inside a page
//           int64_t rowBegin, int64_t rowEnd)   // this thread's rows
mlir::func::FuncOp buildKvAppend(mlir::ModuleOp module, llvm::StringRef name, const KvAppendSpec &spec,
                                 const CpuTarget &target);

} // namespace heddle

#endif
