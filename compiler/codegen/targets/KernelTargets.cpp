// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/KernelTargets.h"

#include "compiler/codegen/targets/cpu/CpuKernelTarget.h"
#include "compiler/codegen/targets/cuda/CudaKernelTarget.h"
#include "compiler/codegen/targets/opencl/OpenClKernelTarget.h"

using namespace heddle;

std::unique_ptr<KernelTarget> heddle::makeKernelTarget(const Target &target) {
  switch (target.device) {
  case DeviceKind::None:
    return std::make_unique<CpuKernelTarget>(target);
  case DeviceKind::Cuda:
    return std::make_unique<CudaKernelTarget>(target);
  case DeviceKind::OpenCl:
    return std::make_unique<OpenClKernelTarget>(target);
  }
  llvm_unreachable("a kind of device");
}
