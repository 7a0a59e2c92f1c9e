// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU as a target of kernels.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CPUKERNELTARGET_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CPUKERNELTARGET_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle {

class CpuKernelTarget : public KernelTarget {
public:
  explicit CpuKernelTarget(const Target &target);
};

} // namespace heddle

#endif
