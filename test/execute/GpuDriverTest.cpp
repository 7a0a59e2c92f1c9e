// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runs kernels, the emulator or a driver, tells what they must not do.
#include "test/execute/GpuKernel.h"

#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Access = ptx::Memory::Access;

// Each of 32 threads stores its index at `base` + 4 * (index + `offset`), where base is `in` or `out`.
std::string storing(const std::string &base, int64_t offset) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry store(\n.param .u64 in,\n.param .u64 "
         "out\n)\n{\n"
         ".reg .b32 %r<2>;\n.reg .b64 %rd<4>;\n"
         "ld.param.b64 %rd1, [" +
         base +
         "];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.b32 [%rd3+" +
         std::to_string(4 * offset) + "], %r1;\nret;\n}\n";
}

std::vector<uint32_t> run(const std::string &text) {
  std::vector<uint32_t> in(32), out(32);
  ptx::Memory memory;
  memory.allow(in.data(), in.size() * 4, Access::Read);
  memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
  const void *from = in.data(), *to = out.data();
  ptx::Launch launch;
  launch.threads[0] = 32;
  GpuKernel(text).run(launch, {&from, &to}, memory, ptx::WarpOrder::Ascending);
  return out;
}

TEST(GpuDriver, KeepsWhatAKernelWrites) {
  std::vector<uint32_t> out = run(storing("out", 0));
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], i);
}

TEST(GpuDriver, TellsOfWritesBehindMemory) {
  EXPECT_THROW(run(storing("out", 1)), ptx::Error);
}

TEST(GpuDriver, TellsOfWritesBeforeMemory) {
  EXPECT_THROW(run(storing("out", -1)), ptx::Error);
}

TEST(GpuDriver, TellsOfWritesToWhatMayOnlyBeRead) {
  EXPECT_THROW(run(storing("in", 0)), ptx::Error);
}

} // namespace
