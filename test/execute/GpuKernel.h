// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One GPU kernel from its generator to PTX, run by the emulator, or on a driver (GpuDriver.h).
#ifndef HEDDLE_TEST_EXECUTE_GPUKERNEL_H
#define HEDDLE_TEST_EXECUTE_GPUKERNEL_H

#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "test/execute/Canaries.h"
#include "test/ptx/Machine.h"

#include <functional>
#include <random>

namespace heddle::test {

// Where a value that a launch takes lies, be it an address itself.
struct GpuArgument {
  template <typename T> GpuArgument(const T *value) : at(static_cast<const void *>(value)) {}
  const void *at;
};

class GpuKernel {
public:
  // `build` adds the only kernel to a module.
  explicit GpuKernel(const std::function<void(mlir::gpu::GPUModuleOp)> &build,
                     llvm::StringRef targetName = "cuda:sm_80");
  // The only kernel of a PTX text.
  explicit GpuKernel(std::string ptx) : text(std::move(ptx)), module(ptx::parseModule(text)) {}

  const std::string &ptx() const { return text; }

  // Throws ptx::Error where the kernel does what it must not. A driver has an order of its own.
  void run(const ptx::Launch &launch, llvm::ArrayRef<GpuArgument> arguments, ptx::Memory &memory,
           ptx::WarpOrder order) const;
  // Microseconds of each of `rounds` launches on the driver, which must be there.
  std::vector<float> time(const ptx::Launch &launch, llvm::ArrayRef<GpuArgument> arguments, ptx::Memory &memory,
                          int rounds) const;

private:
  std::string text;
  ptx::Module module;
};

float roundToBf16(float value);
uint16_t bf16BitsOf(float value);

} // namespace heddle::test

#endif
