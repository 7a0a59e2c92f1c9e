// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the CUDA driver interface that is used (NVIDIA, CUDA Driver API), so that building needs no toolkit.
#ifndef HEDDLE_RUNTIME_DEVICE_CUDAAPI_H
#define HEDDLE_RUNTIME_DEVICE_CUDAAPI_H

#include "runtime/device/DynamicLibrary.h"

#include <cstddef>
#include <cstdint>

namespace heddle::cuda {

struct ContextHandle;
struct StreamHandle;
struct ModuleHandle;
struct FunctionHandle;
struct GraphHandle;
struct GraphExecHandle;
using Context = ContextHandle *;
using Stream = StreamHandle *;
using Module = ModuleHandle *;
using Function = FunctionHandle *;
using Graph = GraphHandle *;
using GraphExec = GraphExecHandle *; // a graph that can be launched
using DeviceId = int32_t;
using Address = uint64_t;

enum : int32_t { success = 0 };
enum : int32_t {
  deviceCapabilityMajor = 75,
  deviceCapabilityMinor = 76,
  functionSharedBytes = 1,
  functionLocalBytes = 3,
  functionRegisters = 4,
  functionMaxDynamicShared = 8,
};
enum : uint32_t { streamNonBlocking = 1 };
enum : uint32_t { captureGlobal = 0, captureThreadLocal = 1, captureRelaxed = 2 };

#define HEDDLE_CUDA_FUNCTIONS(F)                                                                                       \
  F(cuInit, "cuInit", (uint32_t))                                                                                      \
  F(cuGetErrorName, "cuGetErrorName", (int32_t, const char **))                                                        \
  F(cuDriverGetVersion, "cuDriverGetVersion", (int32_t *))                                                             \
  F(cuDeviceGetCount, "cuDeviceGetCount", (int32_t *))                                                                 \
  F(cuDeviceGet, "cuDeviceGet", (DeviceId *, int32_t))                                                                 \
  F(cuDeviceGetName, "cuDeviceGetName", (char *, int32_t, DeviceId))                                                   \
  F(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int32_t *, int32_t, DeviceId))                                      \
  F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context *, DeviceId))                                       \
  F(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceId))                                             \
  F(cuCtxSetCurrent, "cuCtxSetCurrent", (Context))                                                                     \
  F(cuStreamCreate, "cuStreamCreate", (Stream *, uint32_t))                                                            \
  F(cuStreamDestroy, "cuStreamDestroy_v2", (Stream))                                                                   \
  F(cuStreamSynchronize, "cuStreamSynchronize", (Stream))                                                              \
  F(cuMemAlloc, "cuMemAlloc_v2", (Address *, size_t))                                                                  \
  F(cuMemFree, "cuMemFree_v2", (Address))                                                                              \
  F(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, uint32_t))                                                     \
  F(cuMemFreeHost, "cuMemFreeHost", (void *))                                                                          \
  F(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (Address, const void *, size_t, Stream))                                \
  F(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, Address, size_t, Stream))                                      \
  F(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (Address, Address, size_t, Stream))                                     \
  F(cuModuleLoadData, "cuModuleLoadData", (Module *, const void *))                                                    \
  F(cuModuleUnload, "cuModuleUnload", (Module))                                                                        \
  F(cuModuleGetFunction, "cuModuleGetFunction", (Function *, Module, const char *))                                    \
  F(cuFuncSetAttribute, "cuFuncSetAttribute", (Function, int32_t, int32_t))                                            \
  F(cuLaunchKernel, "cuLaunchKernel",                                                                                  \
    (Function, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, Stream, void **, void **))

// What a driver before 11.4 lacks.
#define HEDDLE_CUDA_GRAPH_FUNCTIONS(F)                                                                                 \
  F(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (Stream, uint32_t))                                               \
  F(cuStreamEndCapture, "cuStreamEndCapture", (Stream, Graph *))                                                       \
  F(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (GraphExec *, Graph, uint64_t))                                 \
  F(cuGraphDestroy, "cuGraphDestroy", (Graph))                                                                         \
  F(cuGraphExecDestroy, "cuGraphExecDestroy", (GraphExec))                                                             \
  F(cuGraphLaunch, "cuGraphLaunch", (GraphExec, Stream))

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parts of a declaration
#define HEDDLE_MEMBER(name, symbol, parameters) int32_t(*name) parameters = nullptr;
  HEDDLE_CUDA_FUNCTIONS(HEDDLE_MEMBER)
  HEDDLE_CUDA_GRAPH_FUNCTIONS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER
  Status graphs; // why there are none; a success where there are

  Status open() {
    DynamicLibrary library;
    HEDDLE_RETURN_IF_ERROR(library.open("libcuda.so.1", "no CUDA driver on this machine"));
#define HEDDLE_LOAD(name, symbol, parameters) HEDDLE_RETURN_IF_ERROR(library.load(symbol, name));
    HEDDLE_CUDA_FUNCTIONS(HEDDLE_LOAD)
#undef HEDDLE_LOAD
    graphs = loadGraphs(library);
    return Status();
  }

private:
  Status loadGraphs(DynamicLibrary &library) {
#define HEDDLE_LOAD(name, symbol, parameters) HEDDLE_RETURN_IF_ERROR(library.load(symbol, name));
    HEDDLE_CUDA_GRAPH_FUNCTIONS(HEDDLE_LOAD)
#undef HEDDLE_LOAD
    return Status();
  }
};

} // namespace heddle::cuda

#endif
