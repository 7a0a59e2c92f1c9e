// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels on the driver instead of the emulator: the libcuda.so.1 that the loader finds, a GPU's or test/ptx's.
// Environment:
//   HEDDLE_GPU_TESTS=driver  runs kernels there
//   HEDDLE_GPU_REPEATS       how often each launch runs; all must leave the same bits; 1
//   HEDDLE_GPU_RESOURCES     file that gets a JSON line per kernel: what the driver's compiler gave it
#ifndef HEDDLE_TEST_EXECUTE_GPUDRIVER_H
#define HEDDLE_TEST_EXECUTE_GPUDRIVER_H

#include "test/ptx/Machine.h"

#include <memory>

namespace heddle::test {

class GpuDriver {
public:
  // Null where tests run in the emulator.
  static GpuDriver *get();
  virtual ~GpuDriver() = default;
  // 10 * major + minor.
  virtual int capability() = 0;

  // The kernel `name` of a PTX text over copies of `memory`, whose ranges keep what it wrote. Arguments that lie in a
  // range are addresses. Throws ptx::Error where the driver refuses, a launch writes outside of what it may, or two
  // launches leave different bits.
  virtual void run(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                   const void *const *arguments, const ptx::Memory &memory) = 0;
  // Microseconds of each of `rounds` launches, by the driver's events; memory stays as it is.
  virtual std::vector<float> time(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                                  const void *const *arguments, const ptx::Memory &memory, int rounds) = 0;
};

} // namespace heddle::test

#endif
