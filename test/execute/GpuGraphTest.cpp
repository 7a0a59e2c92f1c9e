// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What capturing a stream means, of whichever libcuda.so.1 is found: the emulated one has to do what a GPU's does.
#include "runtime/device/CudaApi.h"
#include "test/execute/GpuDriver.h"

#include "gtest/gtest.h"

#include <thread>

using namespace heddle;
using namespace heddle::test;

namespace {

enum : int32_t { captureUnsupported = 900, captureInvalidated = 901, captureWrongThread = 908 };

// One thread adds `value` to the number at `at`.
const char adding[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(
.param .u64 at,
.param .u32 value
)
{
.reg .b32 %r<4>;
.reg .b64 %rd<2>;
ld.param.b64 %rd1, [at];
ld.param.b32 %r1, [value];
ld.global.b32 %r2, [%rd1];
add.s32 %r3, %r1, %r2;
st.global.b32 [%rd1], %r3;
ret;
}
)";

struct GpuGraph : testing::Test {
  void SetUp() override {
    if (!GpuDriver::get()) // which has made the context
      GTEST_SKIP() << "HEDDLE_GPU_TESTS is not driver";
    Status status = api.open();
    ASSERT_TRUE(status.isOk()) << status.message();
    ASSERT_TRUE(api.graphs.isOk()) << api.graphs.message();
    ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&context, 0), cuda::success);
    ASSERT_EQ(api.cuCtxSetCurrent(context), cuda::success);
    for (cuda::Stream *made : {&stream, &other})
      ASSERT_EQ(api.cuStreamCreate(made, cuda::streamNonBlocking), cuda::success);
    ASSERT_EQ(api.cuModuleLoadData(&module, adding), cuda::success);
    ASSERT_EQ(api.cuModuleGetFunction(&add, module, "add"), cuda::success);
    ASSERT_EQ(api.cuMemAlloc(&number, sizeof(uint32_t)), cuda::success);
    void *memory = nullptr;
    ASSERT_EQ(api.cuMemHostAlloc(&memory, sizeof(uint32_t), 0), cuda::success);
    locked = static_cast<uint32_t *>(memory);
    set(0);
  }
  void TearDown() override {
    if (!context)
      return;
    api.cuStreamSynchronize(stream);
    if (executable)
      EXPECT_EQ(api.cuGraphExecDestroy(executable), cuda::success);
    api.cuMemFreeHost(locked);
    api.cuMemFree(number);
    api.cuModuleUnload(module);
    for (cuda::Stream made : {stream, other})
      api.cuStreamDestroy(made);
    api.cuDevicePrimaryCtxRelease(0);
  }

  // The number on the device, through the stream that captures nothing.
  void set(uint32_t value) {
    *locked = value;
    EXPECT_EQ(api.cuMemcpyHtoDAsync(number, locked, sizeof value, other), cuda::success);
    EXPECT_EQ(api.cuStreamSynchronize(other), cuda::success);
  }
  uint32_t get() {
    EXPECT_EQ(api.cuMemcpyDtoHAsync(locked, number, sizeof(uint32_t), other), cuda::success);
    EXPECT_EQ(api.cuStreamSynchronize(other), cuda::success);
    return *locked;
  }
  void launchAdd(uint32_t value) {
    void *arguments[] = {&number, &value};
    EXPECT_EQ(api.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), cuda::success);
  }
  void begin(uint32_t mode = cuda::captureThreadLocal) {
    ASSERT_EQ(api.cuStreamBeginCapture(stream, mode), cuda::success);
  }
  void end() {
    cuda::Graph graph = nullptr;
    ASSERT_EQ(api.cuStreamEndCapture(stream, &graph), cuda::success);
    ASSERT_EQ(api.cuGraphInstantiate(&executable, graph, 0), cuda::success);
    EXPECT_EQ(api.cuGraphDestroy(graph), cuda::success) << "what is launched does not need it";
  }
  void launch() {
    ASSERT_EQ(api.cuGraphLaunch(executable, stream), cuda::success);
    ASSERT_EQ(api.cuStreamSynchronize(stream), cuda::success);
  }
  // The end of a capture that some call has made invalid.
  void expectInvalid() {
    cuda::Graph graph = reinterpret_cast<cuda::Graph>(this);
    EXPECT_EQ(api.cuStreamEndCapture(stream, &graph), captureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(api.cuStreamSynchronize(stream), cuda::success) << "it no longer captures";
  }

  cuda::Api api;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr, other = nullptr;
  cuda::Module module = nullptr;
  cuda::Function add = nullptr;
  cuda::Address number = 0;
  uint32_t *locked = nullptr;
  cuda::GraphExec executable = nullptr;
};

TEST_F(GpuGraph, NothingRunsBeforeItsLaunch) {
  begin(cuda::captureRelaxed); // in which this thread may wait for other streams
  launchAdd(5);
  EXPECT_EQ(get(), 0u);
  end();
  EXPECT_EQ(get(), 0u);
  launch();
  EXPECT_EQ(get(), 5u);
  launch();
  launch();
  EXPECT_EQ(get(), 15u);
}

TEST_F(GpuGraph, ArgumentsAreThoseOfTheCapture) {
  begin();
  uint32_t value = 5;
  void *arguments[] = {&number, &value};
  EXPECT_EQ(api.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), cuda::success);
  value = 100;
  end();
  launch();
  EXPECT_EQ(get(), 5u);
}

TEST_F(GpuGraph, CopiesMoveWhatLiesThereThen) {
  void *memory = nullptr;
  ASSERT_EQ(api.cuMemHostAlloc(&memory, 2 * sizeof(uint32_t), 0), cuda::success);
  auto *values = static_cast<uint32_t *>(memory);
  values[0] = 1, values[1] = 0;
  begin();
  EXPECT_EQ(api.cuMemcpyHtoDAsync(number, values, sizeof(uint32_t), stream), cuda::success);
  launchAdd(5);
  EXPECT_EQ(api.cuMemcpyDtoHAsync(values + 1, number, sizeof(uint32_t), stream), cuda::success);
  end();
  EXPECT_EQ(values[1], 0u);
  for (uint32_t value : {7u, 1000u}) {
    values[0] = value;
    launch();
    EXPECT_EQ(values[1], value + 5) << "in the order of the capture";
  }
  api.cuMemFreeHost(memory);
}

TEST_F(GpuGraph, NobodyWaitsForACapturingStream) {
  begin();
  EXPECT_EQ(api.cuStreamSynchronize(stream), captureUnsupported);
  void *arguments[] = {&number, &number};
  EXPECT_EQ(api.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), captureInvalidated);
  expectInvalid();
  begin();
  EXPECT_EQ(api.cuStreamSynchronize(other), captureUnsupported) << "the thread that captures waits for none";
  expectInvalid();
  begin();
  launchAdd(2);
  end();
  launch();
  EXPECT_EQ(get(), 2u) << "the next capture is not invalid";
}

TEST_F(GpuGraph, WhatNoGraphRepeatsIsRefusedToItsThread) {
  begin();
  cuda::Address address = 0;
  EXPECT_EQ(api.cuMemAlloc(&address, 16), captureUnsupported);
  expectInvalid();
  begin();
  int32_t codeElsewhere = -1;
  std::thread([&] {
    api.cuCtxSetCurrent(context);
    codeElsewhere = api.cuMemAlloc(&address, 16);
    api.cuMemFree(address);
  }).join();
  EXPECT_EQ(codeElsewhere, cuda::success);
  launchAdd(3);
  end();
  launch();
  EXPECT_EQ(get(), 3u);
}

TEST_F(GpuGraph, ARelaxedCaptureRefusesNothing) {
  begin(cuda::captureRelaxed);
  cuda::Address address = 0;
  EXPECT_EQ(api.cuMemAlloc(&address, 16), cuda::success);
  EXPECT_EQ(api.cuMemFree(address), cuda::success);
  launchAdd(4);
  end();
  launch();
  EXPECT_EQ(get(), 4u);
}

TEST_F(GpuGraph, ACaptureEndsOnItsThread) {
  begin();
  launchAdd(1);
  int32_t code = -1;
  std::thread([&] {
    cuda::Graph graph = nullptr;
    api.cuCtxSetCurrent(context);
    code = api.cuStreamEndCapture(stream, &graph);
  }).join();
  EXPECT_EQ(code, captureWrongThread);
  cuda::Graph graph = nullptr;
  if (api.cuStreamEndCapture(stream, &graph) == cuda::success)
    api.cuGraphDestroy(graph);
}

TEST_F(GpuGraph, AStreamCapturesOnce) {
  cuda::Graph graph = nullptr;
  EXPECT_NE(api.cuStreamEndCapture(stream, &graph), cuda::success) << "it does not capture";
  begin();
  EXPECT_NE(api.cuStreamBeginCapture(stream, cuda::captureThreadLocal), cuda::success);
  if (api.cuStreamEndCapture(stream, &graph) == cuda::success)
    api.cuGraphDestroy(graph);
}

} // namespace
