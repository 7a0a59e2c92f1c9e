// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of an NVIDIA GPU: those for its tensor cores by MLIR, in the file of the op's name; whatever these do not take is left
// to the kernels of any device.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELS_H

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cuda/GpuKernels.h"

namespace heddle::cuda {

// `gpu` is there once kernels are emitted. `portable`: the emitter of what tensor cores have no kernel for.
std::unique_ptr<KernelEmitter> combineSplits(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable);
std::unique_ptr<KernelEmitter> onlineAttention(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable);
std::unique_ptr<KernelEmitter> packedMatmul(std::optional<GpuKernels> &gpu, std::unique_ptr<KernelEmitter> portable);
std::unique_ptr<KernelEmitter> raggedLinearAttention(std::optional<GpuKernels> &gpu);
std::unique_ptr<KernelEmitter> rotateAppend(std::optional<GpuKernels> &gpu);

} // namespace heddle::cuda

#endif
