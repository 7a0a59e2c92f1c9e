// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a CPU: one emitter for each kernel op, in the file of the op's name. Row-wise
// kernels are Halide's (halide/KernelCall.h).
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CPUKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_CPUKERNELS_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle::cpu {

std::unique_ptr<KernelEmitter> combineSplits(const CpuTarget &target);
std::unique_ptr<KernelEmitter> dequantize();
std::unique_ptr<KernelEmitter> expertMatmul(const CpuTarget &target);
std::unique_ptr<KernelEmitter> flashAttention(const CpuTarget &target);
std::unique_ptr<KernelEmitter> integerMatmul(const CpuTarget &target);
std::unique_ptr<KernelEmitter> kvAppend(const CpuTarget &target);
std::unique_ptr<KernelEmitter> onlineAttention(const CpuTarget &target);
std::unique_ptr<KernelEmitter> onlineLatentAttention(const CpuTarget &target);
std::unique_ptr<KernelEmitter> packedMatmul(const CpuTarget &target);
// Of contractions, which are `linalg.generic`.
std::unique_ptr<KernelEmitter> product();
std::unique_ptr<KernelEmitter> raggedAttention(const CpuTarget &target);
std::unique_ptr<KernelEmitter> raggedConv(const CpuTarget &target);
std::unique_ptr<KernelEmitter> raggedLinearAttention(const CpuTarget &target);
std::unique_ptr<KernelEmitter> routeExperts();

} // namespace heddle::cpu

#endif
