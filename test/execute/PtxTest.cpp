// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulator itself: results that the PTX ISA states, and what it must catch.
#include "test/ptx/Machine.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle::ptx;

namespace {

// A kernel with the parameters `in` and `out` in %rd1 and %rd2, the thread's index in %r1 and its 4 bytes of `out` at
// %rd3.
std::string kernelOf(const std::string &body, const std::string &variables = "") {
  return ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry test(\n.param .u64 in,\n.param .u64 "
         "out\n)\n{\n" +
         variables +
         "ld.param.b64 %rd1, [in];\nld.param.b64 %rd2, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd4, %r1, 4;\n"
         "add.s64 %rd3, %rd2, %rd4;\n" +
         body + "\nret;\n}\n";
}

// What each thread of a block stores.
std::vector<uint32_t> runKernel(const std::string &text, uint32_t threads, const std::vector<uint32_t> &in = {},
                                WarpOrder order = WarpOrder::Ascending) {
  Module module = parseModule(text);
  std::vector<uint32_t> out(threads), source = in;
  source.resize(source.size() + 1);
  Memory memory;
  memory.allow(source.data(), 4 * in.size(), Memory::Access::Read);
  memory.allow(out.data(), 4 * out.size(), Memory::Access::ReadWrite);
  const void *from = source.data(), *to = out.data();
  const void *arguments[] = {static_cast<const void *>(&from), static_cast<const void *>(&to)};
  Launch launch;
  launch.threads[0] = threads;
  run(module.kernels.at("test"), launch, arguments, memory, order);
  return out;
}

uint32_t bits(float value) {
  uint32_t result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

// The result of one instruction on registers %r2, %r3 and %r4 that hold `values`.
uint32_t compute(const std::string &instruction, std::initializer_list<uint32_t> values) {
  std::string body;
  int index = 2;
  for (uint32_t value : values)
    body += "mov.b32 %r" + std::to_string(index++) + ", " + std::to_string(value) + ";\n";
  return runKernel(kernelOf(body + instruction + ";\nst.global.b32 [%rd3], %r9;"), 1)[0];
}

std::string errorOf(const std::string &text, uint32_t threads = 1, const std::vector<uint32_t> &in = {}) {
  try {
    runKernel(text, threads, in);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Ptx, Integers) {
  EXPECT_EQ(compute("sub.s32 %r9, %r2, %r3", {3, 5}), uint32_t(-2));
  EXPECT_EQ(compute("mul.hi.u32 %r9, %r2, %r3", {0x80000000, 6}), 3u);
  EXPECT_EQ(compute("div.s32 %r9, %r2, %r3", {uint32_t(-7), 2}), uint32_t(-3));
  EXPECT_EQ(compute("rem.u32 %r9, %r2, %r3", {7, 4}), 3u);
  EXPECT_EQ(compute("shr.s32 %r9, %r2, 40", {uint32_t(-8)}), uint32_t(-1));
  EXPECT_EQ(compute("shl.b32 %r9, %r2, 32", {1}), 0u);
  EXPECT_EQ(compute("bfe.u32 %r9, %r2, 4, 8", {0x12345}), 0x34u);
  EXPECT_EQ(compute("bfe.s32 %r9, %r2, 4, 4", {0xf0}), uint32_t(-1));
  EXPECT_EQ(compute("mov.b32 {%q1, %r9}, %r2", {0x12345678}), 0x1234u);
  EXPECT_EQ(compute("mov.b32 {%r9, %q1}, %r2", {0x12345678}), 0x5678u);
  EXPECT_EQ(compute("min.s32 %r9, %r2, %r3", {uint32_t(-1), 1}), uint32_t(-1));
}

TEST(Ptx, Floats) {
  EXPECT_EQ(compute("fma.rn.f32 %r9, %r2, %r3, %r4", {bits(2), bits(3), bits(1)}), bits(7));
  EXPECT_EQ(compute("max.ftz.f32 %r9, %r2, %r3", {bits(NAN), bits(-1)}), bits(-1));
  EXPECT_EQ(compute("ex2.approx.ftz.f32 %r9, %r2", {bits(-200)}), 0u);
  EXPECT_EQ(compute("ex2.approx.ftz.f32 %r9, %r2", {bits(-INFINITY)}), 0u);
  EXPECT_EQ(compute("mul.rn.ftz.f32 %r9, %r2, %r3", {bits(0x1p-100f), bits(0x1p-40f)}), 0u);
  EXPECT_EQ(compute("mul.rn.f32 %r9, %r2, %r3", {bits(0x1p-100f), bits(0x1p-40f)}), bits(0x1p-140f));
  EXPECT_EQ(compute("cvt.rn.bf16x2.f32 %r9, %r2, %r3", {0x3f808000, 0x3f818000}), 0x3f803f82u);
  EXPECT_EQ(compute("cvt.rn.f16x2.f32 %r9, %r2, %r3", {bits(1.0f), bits(-2.5f)}), 0x3c00c100u);
  EXPECT_EQ(compute("cvt.f32.f16 %r9, %r2", {0xc0ff}), bits(-2.498046875f));
  EXPECT_EQ(compute("cvt.ftz.f32.f16 %r9, %r2", {1}), bits(0x1p-24f));
  EXPECT_EQ(compute("cvt.rzi.s32.f32 %r9, %r2", {bits(-2.7f)}), uint32_t(-2));
  EXPECT_EQ(compute("cvt.rni.f32.f32 %r9, %r2", {bits(2.5f)}), bits(2));
  EXPECT_EQ(compute("setp.ltu.f32 %p1, %r2, %r3;\nselp.b32 %r9, 1, 0, %p1", {bits(NAN), bits(1)}), 1u);
  EXPECT_EQ(compute("setp.lt.f32 %p1, %r2, %r3;\nselp.b32 %r9, 1, 0, %p1", {bits(NAN), bits(1)}), 0u);
}

// D = A B with A the rows' and B the columns' numbers in one column and row: an outer product.
TEST(Ptx, MultiplyTakesFragmentsWhereTheIsaHasThem) {
  // A[row][0] = row, held by lanes 4 g in the lower halves of registers 0 and 1; B[0][column] = column, by lanes 4 g.
  std::vector<uint32_t> in(96);
  for (uint32_t g = 0; g < 8; ++g) {
    uint32_t *lane = &in[12 * size_t(g)];
    lane[0] = bits(float(g)) >> 16, lane[1] = bits(float(g + 8)) >> 16, lane[2] = bits(float(g)) >> 16;
  }
  for (int result = 0; result < 4; ++result) {
    std::vector<uint32_t> out = runKernel(
        kernelOf("mul.wide.u32 %rd5, %r1, 12;\nadd.s64 %rd5, %rd1, %rd5;\nld.global.b32 %r2, [%rd5];\nld.global.b32 "
                 "%r3, [%rd5+4];\n"
                 "ld.global.b32 %r4, [%rd5+8];\nmov.b32 %r5, 0;\nmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n"
                 "{%q0, %q1, %q2, %q3},\n{%r2, %r3, %r5, %r5},\n{%r4, %r5},\n{%r5, %r5, %r5, %r5};\n"
                 "st.global.b32 [%rd3], %q" +
                 std::to_string(result) + ";"),
        32, in);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t row = lane / 4 + result / 2 * 8, column = 2 * (lane % 4) + result % 2;
      EXPECT_EQ(out[lane], bits(float(row * column))) << lane;
    }
  }
}

TEST(Ptx, CopiesArriveWhenTheyAreWaitedFor) {
  const std::string variables = ".shared .align 16 .b8 tile[64];\n";
  const std::string copy =
      "mov.b32 %r2, tile;\ncp.async.cg.shared.global [%r2], [%rd1], 16, 8;\ncp.async.commit_group;\n";
  const std::string load =
      "ld.shared.b32 %r3, [tile+4];\nld.shared.b32 %r4, [tile+8];\nadd.s32 %r3, %r3, %r4;\nst.global.b32 [%rd3], %r3;";
  alignas(16) static const uint32_t source[] = {1, 2, 3, 4};
  auto run = [&](const char *wait) {
    Module module = parseModule(kernelOf(copy + wait + load, variables));
    uint32_t out = 0;
    Memory memory;
    memory.allow(source, sizeof source, Memory::Access::Read);
    memory.allow(&out, sizeof out, Memory::Access::ReadWrite);
    const void *from = source, *to = &out;
    const void *arguments[] = {static_cast<const void *>(&from), static_cast<const void *>(&to)};
    heddle::ptx::run(module.kernels.at("test"), {}, arguments, memory);
    return out;
  };
  EXPECT_EQ(run("cp.async.wait_group 0;\n"), 2u); // the upper 8 bytes are 0
  EXPECT_EQ(run("cp.async.wait_group 1;\n"), uint32_t(-2));
}

// Without the barrier, what a warp reads depends on which warp runs first.
TEST(Ptx, AtomicsAddUp) {
  // Each thread adds its index.
  std::string text = kernelOf("mov.b32 %r5, 0;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $L_add;\nst.shared.u32 [sum], %r5;\n"
                              "$L_add:\nbar.sync 0;\natom.shared.add.u32 %r6, [sum], %r1;\nbar.sync 0;\n"
                              "ld.shared.u32 %r7, [sum];\nst.global.b32 [%rd3], %r7;",
                              ".shared .align 4 .b8 sum[4];\n");
  EXPECT_EQ(runKernel(text, 64), std::vector<uint32_t>(64, 63 * 64 / 2));
}

TEST(Ptx, AMissingBarrierShowsInTheOrderOfWarps) {
  auto kernel = [&](const char *barrier) {
    return kernelOf(std::string("shl.b32 %r2, %r1, 2;\nst.shared.b32 [%r2], %r1;\n") + barrier +
                        "xor.b32 %r3, %r2, 128;\nld.shared.b32 %r4, [%r3];\nst.global.b32 [%rd3], %r4;",
                    ".shared .align 4 .b8 tile[256];\n");
  };
  std::string with = kernel("bar.sync 0;\n"), without = kernel("");
  EXPECT_EQ(runKernel(with, 64), runKernel(with, 64, {}, WarpOrder::Descending));
  EXPECT_EQ(runKernel(with, 64)[0], 32u);
  EXPECT_NE(runKernel(without, 64), runKernel(without, 64, {}, WarpOrder::Descending));
}

TEST(Ptx, WhatAKernelMustNotDo) {
  EXPECT_EQ(errorOf(kernelOf("ld.global.b32 %r2, [%rd1+8];"), 1, {1, 2}),
            "test, line 14, thread 0: an access of 4 bytes lies outside of every allocation");
  EXPECT_EQ(errorOf(kernelOf("ld.global.b32 %r2, [%rd1+2];"), 1, {1, 2}),
            "test, line 14, thread 0: an access of 4 bytes is not aligned");
  EXPECT_EQ(errorOf(kernelOf("st.global.b32 [%rd1], %r1;"), 1, {1}),
            "test, line 14, thread 0: a store to memory that is only read");
  EXPECT_EQ(errorOf(kernelOf("ld.shared.b32 %r2, [tile+16];", ".shared .align 4 .b8 tile[16];\n")),
            "test, line 15, thread 0: shared memory: 4 bytes at 16 of 16");
  EXPECT_EQ(
      errorOf(kernelOf("setp.eq.u32 %p1, %r1, 3;\n@%p1 bra end;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nend:"), 32),
      "line 16: a warp does not execute it together");
  EXPECT_EQ(errorOf(kernelOf("frobnicate.b32 %r2, %r1;")), "PTX line 14: instruction 'frobnicate.b32' is not known");
  EXPECT_EQ(errorOf(kernelOf("bra nowhere;")), "PTX line 16: no label nowhere");
}

} // namespace
