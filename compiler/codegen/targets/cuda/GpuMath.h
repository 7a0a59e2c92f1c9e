// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions in the kernels of this folder, without libdevice.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUMATH_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_GPUMATH_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

// 1 / (1 + e^-x) for any x.
mlir::Value emitSigmoid(GpuBuilder &b, mlir::Value x);

// tanh x, within 1e-6 of it.
mlir::Value emitTanh(GpuBuilder &b, mlir::Value x);

// What the epilogue makes of a finished sum; of the gate's where it is gated.
mlir::Value emitActivation(GpuBuilder &b, MatmulEpilogue epilogue, mlir::Value x);

} // namespace heddle

#endif
