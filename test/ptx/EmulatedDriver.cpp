// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libcuda.so.1 for machines without a GPU: the part of the CUDA driver interface that the runtime and tests open, with the
// emulator as its device. Device memory is memory of the process that begins as no number; launches run at once.
// Environment:
//   HEDDLE_CUDA_LOG         file that gets a line per call that a test may ask about
//   HEDDLE_CUDA_DEVICES     how many devices there are; 1
//   HEDDLE_CUDA_CAPABILITY  their compute capability; 80
//   HEDDLE_CUDA_FAULT       stale-copies: a captured copy from the host brings what lay there when it was captured;
//                           no-graphs: graphs are never ready to be launched
// What a kernel must not do is told on stderr and fails its launch.
#include "runtime/device/CudaApi.h"
#include "test/ptx/EmulatedStream.h"
#include "test/ptx/Machine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

using namespace heddle;
using emulated::invalidValue;

namespace {

enum : int32_t { noMemory = 2, invalidPtx = 218, notFound = 500, illegalAddress = 700 };

constexpr uint32_t staticSharedLimit = 48 * 1024;

struct LoadedModule {
  ptx::Module module;
};
struct LoadedFunction {
  const ptx::Kernel *kernel;
  uint32_t dynamicSharedLimit;
};

struct Driver {
  emulated::Streams streams;
  ptx::Memory memory;
  std::map<uint64_t, size_t> allocations;
  std::map<uint64_t, size_t> locked; // memory of the host
  std::vector<std::unique_ptr<LoadedFunction>> functions;
  FILE *log = nullptr;
};

Driver &driver() {
  static Driver driver;
  return driver;
}

int32_t number(const char *name, int32_t otherwise) {
  const char *value = getenv(name);
  return value ? int32_t(strtol(value, nullptr, 10)) : otherwise;
}

int32_t capability() {
  return number("HEDDLE_CUDA_CAPABILITY", 80);
}

// What a block may ask for on any GPU of the capability or later: less on sm_86 and sm_89 than on sm_80.
uint32_t optInSharedLimit() {
  return (capability() >= 90 ? 227 : 99) * 1024;
}

// [address, address + size) lies in one allocation.
bool isIn(const std::map<uint64_t, size_t> &allocations, cuda::Address address, size_t size) {
  auto after = allocations.upper_bound(address);
  return after != allocations.begin() && address + size <= std::prev(after)->first + std::prev(after)->second;
}
bool isAllocated(cuda::Address address, size_t size) {
  return isIn(driver().allocations, address, size);
}

bool hasFault(const char *name) {
  const char *fault = getenv("HEDDLE_CUDA_FAULT");
  return fault && strcmp(fault, name) == 0;
}

emulated::Stream *streamOf(cuda::Stream stream) {
  auto *known = reinterpret_cast<emulated::Stream *>(stream);
  return driver().streams.has(known) ? known : nullptr;
}

template <typename... Arguments> void record(const char *format, Arguments... arguments) {
  if (!driver().log)
    return;
  fprintf(driver().log, format, arguments...);
  fflush(driver().log);
}

// A copy between `host` and memory of the device.
int32_t copy(cuda::Stream stream, void *to, const void *from, size_t size, const void *host) {
  emulated::Stream *known = streamOf(stream);
  if (!known)
    return invalidValue;
  if (known->isCapturing() && host && !isIn(driver().locked, uint64_t(host), size)) {
    fprintf(stderr, "emulated driver: a graph would copy memory of the host that is not locked\n");
    return invalidValue;
  }
  std::vector<uint8_t> stale;
  if (known->isCapturing() && host == from && host && hasFault("stale-copies"))
    stale.assign(static_cast<const uint8_t *>(from), static_cast<const uint8_t *>(from) + size);
  return known->enqueue([to, from, size, host, stale = std::move(stale)] {
    if (host)
      record("%s %zu\n", host == from ? "upload" : "download", size);
    memmove(to, stale.empty() ? from : stale.data(), size);
    return int32_t(cuda::success);
  });
}

} // namespace

// Functions have the driver's names, and its addresses are numbers.
// NOLINTBEGIN(readability-identifier-naming, performance-no-int-to-ptr)
extern "C" {

long driver_objects; // contexts, streams and memory that were given and are not back

int32_t cuInit(uint32_t) {
  if (const char *path = getenv("HEDDLE_CUDA_LOG"))
    driver().log = fopen(path, "w");
  return cuda::success;
}

int32_t cuGetErrorName(int32_t code, const char **name) {
  *name = code == noMemory                       ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == invalidPtx                   ? "CUDA_ERROR_INVALID_PTX"
          : code == notFound                     ? "CUDA_ERROR_NOT_FOUND"
          : code == emulated::illegalState       ? "CUDA_ERROR_ILLEGAL_STATE"
          : code == emulated::captureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : code == emulated::captureInvalidated ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
          : code == emulated::captureWrongThread ? "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"
          : code == illegalAddress               ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                 : "CUDA_ERROR_INVALID_VALUE";
  return cuda::success;
}

int32_t cuDriverGetVersion(int32_t *version) {
  return *version = 12040, cuda::success;
}
int32_t cuDeviceGetCount(int32_t *count) {
  return *count = number("HEDDLE_CUDA_DEVICES", 1), cuda::success;
}
int32_t cuDeviceGet(cuda::DeviceId *device, int32_t index) {
  return *device = index, cuda::success;
}
int32_t cuDeviceGetName(char *name, int32_t size, cuda::DeviceId) {
  return snprintf(name, size, "PTX emulator"), cuda::success;
}

int32_t cuDeviceGetAttribute(int32_t *value, int32_t attribute, cuda::DeviceId) {
  *value = attribute == cuda::deviceCapabilityMajor   ? capability() / 10
           : attribute == cuda::deviceCapabilityMinor ? capability() % 10
                                                      : 0;
  return attribute == cuda::deviceCapabilityMajor || attribute == cuda::deviceCapabilityMinor ? int32_t(cuda::success)
                                                                                              : invalidValue;
}

int32_t cuDevicePrimaryCtxRetain(cuda::Context *context, cuda::DeviceId) {
  *context = reinterpret_cast<cuda::Context>(&driver());
  ++driver_objects;
  return cuda::success;
}
int32_t cuDevicePrimaryCtxRelease_v2(cuda::DeviceId) {
  --driver_objects;
  return cuda::success;
}
int32_t cuCtxSetCurrent(cuda::Context context) {
  return context ? int32_t(cuda::success) : invalidValue;
}
int32_t cuStreamCreate(cuda::Stream *stream, uint32_t) {
  std::lock_guard lock(driver().streams.mutex);
  *stream = reinterpret_cast<cuda::Stream>(driver().streams.create());
  ++driver_objects;
  return cuda::success;
}
int32_t cuStreamDestroy_v2(cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  int32_t code = driver().streams.destroy(reinterpret_cast<emulated::Stream *>(stream));
  driver_objects -= code == cuda::success;
  return code;
}
int32_t cuStreamSynchronize(cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  emulated::Stream *known = streamOf(stream);
  if (!known)
    return invalidValue;
  // An H200 refuses it to the thread that captures, whatever the stream.
  int32_t code = driver().streams.doUncaptured();
  return code ? code : known->synchronise();
}

int32_t cuStreamBeginCapture_v2(cuda::Stream stream, uint32_t mode) {
  std::lock_guard lock(driver().streams.mutex);
  emulated::Stream *known = streamOf(stream);
  return known ? known->begin(mode) : invalidValue;
}
int32_t cuStreamEndCapture(cuda::Stream stream, emulated::Graph **graph) {
  std::lock_guard lock(driver().streams.mutex);
  emulated::Stream *known = streamOf(stream);
  if (!known || !graph)
    return invalidValue;
  int32_t code = known->end(*graph);
  driver_objects += code == cuda::success;
  return code;
}
// What is launched is a copy: the graph may go.
int32_t cuGraphInstantiateWithFlags(emulated::Graph **executable, const emulated::Graph *graph, uint64_t) {
  if (!executable || !graph)
    return invalidValue;
  if (hasFault("no-graphs"))
    return noMemory;
  record("graph of %zu operations\n", graph->operations.size());
  *executable = new emulated::Graph(*graph);
  ++driver_objects;
  return cuda::success;
}
int32_t cuGraphDestroy(emulated::Graph *graph) {
  driver_objects -= graph != nullptr;
  delete graph;
  return graph ? int32_t(cuda::success) : invalidValue;
}
int32_t cuGraphExecDestroy(emulated::Graph *graph) {
  return cuGraphDestroy(graph);
}
int32_t cuGraphLaunch(const emulated::Graph *graph, cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  emulated::Stream *known = streamOf(stream);
  if (!known || !graph)
    return invalidValue;
  if (known->isCapturing())
    return emulated::captureUnsupported;
  record("launch graph of %zu operations\n", graph->operations.size());
  for (const emulated::Operation &operation : graph->operations)
    if (int32_t code = operation(); code != cuda::success)
      return code;
  return cuda::success;
}

int32_t cuMemAlloc_v2(cuda::Address *address, size_t size) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  void *memory = size ? aligned_alloc(256, (size + 255) / 256 * 256) : nullptr;
  if (!memory)
    return size ? noMemory : invalidValue;
  memset(memory, 0xff, size);
  *address = reinterpret_cast<cuda::Address>(memory);
  driver().allocations[*address] = size;
  driver().memory.allow(memory, size, ptx::Memory::Access::ReadWrite);
  record("allocate %zu\n", size);
  ++driver_objects;
  return cuda::success;
}

int32_t cuMemFree_v2(cuda::Address address) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  if (!driver().allocations.erase(address))
    return invalidValue;
  driver().memory.forbid(reinterpret_cast<void *>(address));
  --driver_objects;
  free(reinterpret_cast<void *>(address));
  return cuda::success;
}

int32_t cuMemHostAlloc(void **memory, size_t size, uint32_t) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  *memory = size ? aligned_alloc(256, (size + 255) / 256 * 256) : nullptr;
  if (!*memory)
    return size ? noMemory : invalidValue;
  driver().locked[uint64_t(*memory)] = size;
  ++driver_objects;
  return cuda::success;
}
int32_t cuMemFreeHost(void *memory) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  if (!driver().locked.erase(uint64_t(memory)))
    return invalidValue;
  --driver_objects;
  free(memory);
  return cuda::success;
}

int32_t cuMemcpyHtoDAsync_v2(cuda::Address to, const void *from, size_t size, cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  return isAllocated(to, size) ? copy(stream, reinterpret_cast<void *>(to), from, size, from) : invalidValue;
}
int32_t cuMemcpyDtoHAsync_v2(void *to, cuda::Address from, size_t size, cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  return isAllocated(from, size) ? copy(stream, to, reinterpret_cast<const void *>(from), size, to) : invalidValue;
}
int32_t cuMemcpyDtoDAsync_v2(cuda::Address to, cuda::Address from, size_t size, cuda::Stream stream) {
  std::lock_guard lock(driver().streams.mutex);
  return isAllocated(to, size) && isAllocated(from, size)
             ? copy(stream, reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), size, nullptr)
             : invalidValue;
}

int32_t cuModuleLoadData(cuda::Module *module, const void *text) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  try {
    auto loaded = std::make_unique<LoadedModule>(LoadedModule{ptx::parseModule(static_cast<const char *>(text))});
    record("load %s, %zu kernels\n", loaded->module.target.c_str(), loaded->module.kernels.size());
    *module = reinterpret_cast<cuda::Module>(loaded.release());
    return cuda::success;
  } catch (const ptx::Error &error) {
    fprintf(stderr, "emulated driver: %s\n", error.what());
    return invalidPtx;
  }
}

int32_t cuModuleLoadDataEx(cuda::Module *module, const void *text, uint32_t, int32_t *, void **) {
  return cuModuleLoadData(module, text);
}

int32_t cuModuleUnload(cuda::Module module) {
  std::lock_guard lock(driver().streams.mutex);
  if (int32_t code = driver().streams.doUncaptured(); code != cuda::success)
    return code;
  delete reinterpret_cast<LoadedModule *>(module);
  return cuda::success;
}

int32_t cuModuleGetFunction(cuda::Function *function, cuda::Module module, const char *name) {
  std::lock_guard lock(driver().streams.mutex);
  const auto &kernels = reinterpret_cast<LoadedModule *>(module)->module.kernels;
  auto found = kernels.find(name);
  if (found == kernels.end())
    return notFound;
  driver().functions.push_back(std::make_unique<LoadedFunction>(LoadedFunction{&found->second, staticSharedLimit}));
  *function = reinterpret_cast<cuda::Function>(driver().functions.back().get());
  return cuda::success;
}

// Registers are a compiler's business: those of the text.
int32_t cuFuncGetAttribute(int32_t *value, int32_t attribute, cuda::Function function) {
  const ptx::Kernel &kernel = *reinterpret_cast<LoadedFunction *>(function)->kernel;
  if (attribute != cuda::functionSharedBytes && attribute != cuda::functionLocalBytes &&
      attribute != cuda::functionRegisters)
    return invalidValue;
  *value = attribute == cuda::functionSharedBytes  ? int32_t(kernel.sharedBytes)
           : attribute == cuda::functionLocalBytes ? int32_t(kernel.localBytes)
                                                   : kernel.numRegisters;
  return cuda::success;
}

// What a kernel has already counts against the limit.
int32_t cuFuncSetAttribute(cuda::Function function, int32_t attribute, int32_t value) {
  auto *loaded = reinterpret_cast<LoadedFunction *>(function);
  if (attribute != cuda::functionMaxDynamicShared || value < 0 ||
      loaded->kernel->sharedBytes + uint32_t(value) > optInSharedLimit())
    return invalidValue;
  loaded->dynamicSharedLimit = uint32_t(value);
  return cuda::success;
}

int32_t cuLaunchKernel(cuda::Function function, uint32_t blocksX, uint32_t blocksY, uint32_t blocksZ, uint32_t threadsX,
                       uint32_t threadsY, uint32_t threadsZ, uint32_t sharedBytes, cuda::Stream stream,
                       void **arguments, void **) {
  std::lock_guard lock(driver().streams.mutex);
  auto *loaded = reinterpret_cast<LoadedFunction *>(function);
  const ptx::Kernel &kernel = *loaded->kernel;
  ptx::Launch launch = {{blocksX, blocksY, blocksZ}, {threadsX, threadsY, threadsZ}, sharedBytes};
  uint64_t threads = uint64_t(threadsX) * threadsY * threadsZ;
  bool isShared = sharedBytes <= loaded->dynamicSharedLimit && (loaded->dynamicSharedLimit > staticSharedLimit ||
                                                                kernel.sharedBytes + sharedBytes <= staticSharedLimit);
  emulated::Stream *known = streamOf(stream);
  if (!known || !blocksX || !blocksY || !blocksZ || !threads || threads > 1024 || !isShared)
    return invalidValue;
  // Arguments are the values that they are now.
  std::vector<uint8_t> values(kernel.parameterBytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    memcpy(values.data() + kernel.parameters[i].offset, arguments[i], kernel.parameters[i].size);
  return known->enqueue([&kernel, launch, values = std::move(values)] {
    record("launch %s blocks %u %u %u threads %u %u %u shared %u + %u, %zu arguments\n", kernel.name.c_str(),
           launch.blocks[0], launch.blocks[1], launch.blocks[2], launch.threads[0], launch.threads[1],
           launch.threads[2], kernel.sharedBytes, launch.sharedBytes, kernel.parameters.size());
    std::vector<const void *> places;
    places.reserve(kernel.parameters.size());
    for (const ptx::Kernel::Parameter &parameter : kernel.parameters)
      places.push_back(values.data() + parameter.offset);
    try {
      ptx::run(kernel, launch, places.data(), driver().memory);
    } catch (const ptx::Error &error) {
      fprintf(stderr, "emulated driver: %s\n", error.what());
      return int32_t(illegalAddress);
    }
    return int32_t(cuda::success);
  });
}

// An event is a time of the process' clock.
int32_t cuEventCreate(double **event, uint32_t) {
  return *event = new double(0), cuda::success;
}
int32_t cuEventRecord(double *event, cuda::Stream) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return *event = double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6, cuda::success;
}
int32_t cuEventSynchronize(double *) {
  return cuda::success;
}
int32_t cuEventElapsedTime(float *milliseconds, const double *begin, const double *end) {
  return *milliseconds = float(*end - *begin), cuda::success;
}
int32_t cuEventDestroy_v2(double *event) {
  delete event;
  return cuda::success;
}

} // extern "C"
// NOLINTEND(readability-identifier-naming, performance-no-int-to-ptr)
