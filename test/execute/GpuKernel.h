// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One GPU kernel from its generator to PTX, run by the emulator.
#ifndef HEDDLE_TEST_EXECUTE_GPUKERNEL_H
#define HEDDLE_TEST_EXECUTE_GPUKERNEL_H

#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "test/ptx/Machine.h"

#include <functional>
#include <random>

namespace heddle::test {

class GpuKernel {
public:
  // `build` adds the only kernel to a module.
  explicit GpuKernel(const std::function<void(mlir::gpu::GPUModuleOp)> &build);

  // Throws ptx::Error where the kernel does what it must not.
  void run(const ptx::Launch &launch, std::initializer_list<const void *> arguments, ptx::Memory &memory,
           ptx::WarpOrder order) const;

private:
  ptx::Module module;
};

float roundToBf16(float value);
uint16_t bf16BitsOf(float value);

} // namespace heddle::test

#endif
