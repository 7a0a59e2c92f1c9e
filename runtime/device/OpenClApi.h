// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the OpenCL 2.0 C interface that is used (Khronos OpenCL API specification), so that building needs no headers of it
// and running no link to it.
#ifndef HEDDLE_RUNTIME_DEVICE_OPENCLAPI_H
#define HEDDLE_RUNTIME_DEVICE_OPENCLAPI_H

#include "runtime/device/DynamicLibrary.h"

#include <cstddef>
#include <cstdint>

namespace heddle::opencl {

struct PlatformHandle;
struct DeviceHandle;
struct ContextHandle;
struct QueueHandle;
struct ProgramHandle;
struct KernelHandle;
using Platform = PlatformHandle *;
using DeviceId = DeviceHandle *;
using Context = ContextHandle *;
using Queue = QueueHandle *;
using Program = ProgramHandle *;
using Kernel = KernelHandle *;

enum : int32_t { success = 0, deviceNotFound = -1, buildProgramFailure = -11, platformNotFound = -1001 };
enum : uint32_t {
  platformVersion = 0x0901,
  platformName = 0x0902,
  deviceMaxWorkGroup = 0x1004,
  deviceMaxAllocation = 0x1010,
  deviceSingleFpConfig = 0x101B,
  deviceLocalMemory = 0x1023,
  deviceName = 0x102B,
  deviceVendor = 0x102C,
  driverVersion = 0x102D,
  deviceVersion = 0x102F,
  devicePlatform = 0x1031,
  deviceSvmCapabilities = 0x1053,
  programBinarySizes = 0x1165,
  programBinaries = 0x1166,
  programBuildLog = 0x1183,
};
enum : uint64_t {
  typeGpuOrAccelerator = 4 | 8,
  typeCpu = 2,
  memReadWrite = 1,
  svmCoarseGrainBuffer = 1,
  correctlyRoundedDivideSqrt = 128,
};

// Every function, as (result, name, parameters).
#define HEDDLE_OPENCL_FUNCTIONS(F)                                                                                     \
  F(int32_t, clGetPlatformIDs, (uint32_t, Platform *, uint32_t *))                                                     \
  F(int32_t, clGetPlatformInfo, (Platform, uint32_t, size_t, void *, size_t *))                                        \
  F(int32_t, clGetDeviceIDs, (Platform, uint64_t, uint32_t, DeviceId *, uint32_t *))                                   \
  F(int32_t, clGetDeviceInfo, (DeviceId, uint32_t, size_t, void *, size_t *))                                          \
  F(Context, clCreateContext,                                                                                          \
    (const intptr_t *, uint32_t, const DeviceId *, void (*)(const char *, const void *, size_t, void *), void *,       \
     int32_t *))                                                                                                       \
  F(int32_t, clReleaseContext, (Context))                                                                              \
  F(Queue, clCreateCommandQueueWithProperties, (Context, DeviceId, const uint64_t *, int32_t *))                       \
  F(int32_t, clReleaseCommandQueue, (Queue))                                                                           \
  F(void *, clSVMAlloc, (Context, uint64_t, size_t, uint32_t))                                                         \
  F(void, clSVMFree, (Context, void *))                                                                                \
  F(int32_t, clEnqueueSVMMemcpy, (Queue, uint32_t, void *, const void *, size_t, uint32_t, const void *, void *))      \
  F(Program, clCreateProgramWithSource, (Context, uint32_t, const char **, const size_t *, int32_t *))                 \
  F(Program, clCreateProgramWithBinary,                                                                                \
    (Context, uint32_t, const DeviceId *, const size_t *, const uint8_t **, int32_t *, int32_t *))                     \
  F(int32_t, clBuildProgram, (Program, uint32_t, const DeviceId *, const char *, void (*)(Program, void *), void *))   \
  F(int32_t, clGetProgramBuildInfo, (Program, DeviceId, uint32_t, size_t, void *, size_t *))                           \
  F(int32_t, clGetProgramInfo, (Program, uint32_t, size_t, void *, size_t *))                                          \
  F(int32_t, clReleaseProgram, (Program))                                                                              \
  F(Kernel, clCreateKernel, (Program, const char *, int32_t *))                                                        \
  F(int32_t, clReleaseKernel, (Kernel))                                                                                \
  F(int32_t, clSetKernelArg, (Kernel, uint32_t, size_t, const void *))                                                 \
  F(int32_t, clSetKernelArgSVMPointer, (Kernel, uint32_t, const void *))                                               \
  F(int32_t, clEnqueueNDRangeKernel,                                                                                   \
    (Queue, Kernel, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const void *, void *))         \
  F(int32_t, clFlush, (Queue))                                                                                         \
  F(int32_t, clFinish, (Queue))

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parts of a declaration
#define HEDDLE_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HEDDLE_OPENCL_FUNCTIONS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER

  Status open() {
    DynamicLibrary library;
    HEDDLE_RETURN_IF_ERROR(library.open("libOpenCL.so.1", "no OpenCL on this machine"));
#define HEDDLE_LOAD(result, name, parameters) HEDDLE_RETURN_IF_ERROR(library.load(#name, name));
    HEDDLE_OPENCL_FUNCTIONS(HEDDLE_LOAD)
#undef HEDDLE_LOAD
    return Status();
  }
};

} // namespace heddle::opencl

#endif
