// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `kernel_call` on every target: outlined row-wise kernels, which Halide emits.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_KERNELCALL_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_KERNELCALL_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle {

// Its kernels take a halide_buffer_t for each operand, on a device behind heddle_step::device.
std::unique_ptr<KernelEmitter> makeKernelCall(const Target &target);

} // namespace heddle

#endif
