// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotary embedding of queries and keys, and the cache's rows of a step, in one kernel: what stands between the projections and attention where the
// product of few rows does not end with it.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ROTATEAPPEND_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_ROTATEAPPEND_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/HeadRows.h"

namespace heddle {

// Fails with what is not stored: caches of codes, and heads of an odd width.
mlir::LogicalResult verifyGpuRotateAppend(const RotateAppendSpec &spec, std::string &error);

// void name(const float *input,  // (rows, width()), row stride inputStride elements, even
//           int64_t inputStride, …) // and what HeadRows takes
// for a grid of (numAllHeads(), rows) blocks of a warp.
mlir::gpu::GPUFuncOp buildGpuRotateAppend(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                                          const RotateAppendSpec &spec);

} // namespace heddle

#endif
