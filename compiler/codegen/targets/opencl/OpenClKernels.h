// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of any device, by Halide: one emitter for each kernel op, in the file of the op's name. Row-wise kernels are those of
// all targets (halide/KernelCall.h).
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_OPENCLKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_OPENCL_OPENCLKERNELS_H

#include "compiler/codegen/kernel/KernelTarget.h"

namespace heddle::opencl {

// An emitter of one op, made for a target.
template <typename Op> class DeviceEmitterOf : public KernelEmitterOf<Op> {
public:
  explicit DeviceEmitterOf(const Target &target) : target(target) {}

protected:
  const Target &target;
};

std::unique_ptr<KernelEmitter> combineSplits(const Target &target);
std::unique_ptr<KernelEmitter> dequantize(const Target &target);
std::unique_ptr<KernelEmitter> expertMatmul(const Target &target);
std::unique_ptr<KernelEmitter> kvAppend(const Target &target);
std::unique_ptr<KernelEmitter> onlineAttention(const Target &target);
std::unique_ptr<KernelEmitter> onlineLatentAttention(const Target &target);
std::unique_ptr<KernelEmitter> packedMatmul(const Target &target);
std::unique_ptr<KernelEmitter> raggedAttention(const Target &target);
std::unique_ptr<KernelEmitter> raggedConv(const Target &target);
std::unique_ptr<KernelEmitter> raggedLinearAttention(const Target &target);
std::unique_ptr<KernelEmitter> rotateAppend(const Target &target);
std::unique_ptr<KernelEmitter> routeExperts(const Target &target);

} // namespace heddle::opencl

#endif
