// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of targets.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_KERNELTARGETS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_KERNELTARGETS_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle {

// `target` outlives what is returned.
std::unique_ptr<KernelTarget> makeKernelTarget(const Target &target);

} // namespace heddle

#endif
