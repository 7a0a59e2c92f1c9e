// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any OpenCL device as a target of kernels.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_OPENCLKERNELTARGET_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_OPENCLKERNELTARGET_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle {

class OpenClKernelTarget : public KernelTarget {
public:
  explicit OpenClKernelTarget(const Target &target);
};

} // namespace heddle

#endif
