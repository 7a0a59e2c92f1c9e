// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU ops of the heddle dialect -> LLVM: the only instructions that are written as PTX.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_LOWERGPUOPS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_LOWERGPUOPS_H

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"

namespace heddle {

void populateGpuOpPatterns(const mlir::LLVMTypeConverter &types, mlir::RewritePatternSet &patterns);

} // namespace heddle

#endif
