// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An NVIDIA GPU as a target of kernels.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELTARGET_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_CUDAKERNELTARGET_H

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cuda/GpuKernels.h"

namespace heddle {

class CudaKernelTarget : public KernelTarget {
public:
  explicit CudaKernelTarget(const Target &target);

  void begin(mlir::ModuleOp code) override { gpu.emplace(code, *target.gpu); }
  GpuKernels *gpuKernels() override { return gpu ? &*gpu : nullptr; }

private:
  const Target &target;
  std::optional<GpuKernels> gpu;
};

} // namespace heddle

#endif
