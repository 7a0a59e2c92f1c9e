// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVIDIA GPUs, through the driver's interface. PTX is compiled by the driver at its first launch.
#include "runtime/device/CudaApi.h"
#include "runtime/device/Device.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace heddle {
namespace {

using namespace cuda;

constexpr uint32_t sharedWithoutAsking = 48 * 1024;

class CudaDevice final : public Device {
public:
  ~CudaDevice() override { endClose(); }
  Status open(std::string_view architecture, const std::string &selector);

  std::string description() const override;
  Status allocate(uint64_t size, const char *what, uint8_t *&outAddress) override;
  void release(uint8_t *address) override;
  Status allocateOnHost(uint64_t size, const char *what, uint8_t *&outAddress) override;
  void releaseOnHost(uint8_t *address) override;
  TokenChooser chooser() const override { return token_chooser::ofCuda(); }
  Status canRecord() const override { return api.graphs; }

protected:
  Status launch(const heddle_launch &launch) override;
  Status transfer(Direction direction, void *to, const void *from, uint64_t size) override;
  Status finish() override;
  Status beginCapture() override;
  Status endCapture(void *&outGraph) override;
  Status launchGraph(void *graph) override;
  void destroyGraph(void *graph) override;
  void close() override;

private:
  struct LoadedModule {
    const char *code;
    Module module;
  };
  struct LoadedFunction {
    const char *code, *entry;
    Function function;
  };

  Status findDevice(const std::string &selector);
  Status checkArchitecture(std::string_view architecture);
  Status functionOf(const heddle_launch &launch, Function &outFunction);
  Status loadFunction(const heddle_launch &launch, Function &outFunction);
  Status check(const char *what, int32_t code) const;
  Stream queue() const { return isRecording() ? recording : stream; }
  int32_t attribute(int32_t which) const {
    int32_t value = 0;
    return api.cuDeviceGetAttribute(&value, which, device) == success ? value : 0;
  }

  Api api;
  DeviceId device = -1;
  Context context = nullptr;
  Stream stream = nullptr;
  Stream recording = nullptr;       // where nothing runs: others may launch in the first while one thread records
  LoadedList<LoadedModule> modules; // in order of first launch
  LoadedList<LoadedFunction> functions;
};

} // namespace

Status CudaDevice::check(const char *what, int32_t code) const {
  if (code == success)
    return Status();
  const char *name = "an unknown error";
  api.cuGetErrorName(code, &name);
  return Status::failure(format("CUDA: %s failed: %s (%d)", what, name, code));
}

void CudaDevice::close() {
  if (!context)
    return;
  api.cuCtxSetCurrent(context);
  if (stream) {
    api.cuStreamSynchronize(stream);
    for (const LoadedModule &loaded : modules)
      api.cuModuleUnload(loaded.module);
    api.cuStreamDestroy(stream);
  }
  if (recording)
    api.cuStreamDestroy(recording);
  api.cuDevicePrimaryCtxRelease(device);
  stream = recording = nullptr;
  context = nullptr;
}

Status CudaDevice::findDevice(const std::string &selector) {
  int32_t count = 0;
  HEDDLE_RETURN_IF_ERROR(check("cuDeviceGetCount", api.cuDeviceGetCount(&count)));
  if (count == 0)
    return Status::failure("no CUDA device: the driver sees no GPU");
  std::vector<std::string> names;
  for (int32_t i = 0; i < count; ++i) {
    char name[256] = "?";
    api.cuDeviceGetName(name, sizeof name, i);
    names.push_back(name);
  }
  size_t index = 0;
  HEDDLE_RETURN_IF_ERROR(selectDevice("CUDA", selector, names.data(), names.size(), index));
  return check("cuDeviceGet", api.cuDeviceGet(&device, int32_t(index)));
}

// "sm_80" runs on 8.0 and later; "sm_90a" on 9.0 alone: its instructions are in no other architecture.
Status CudaDevice::checkArchitecture(std::string_view architecture) {
  std::string name(architecture);
  int32_t needed = name.substr(0, 3) == "sm_" ? int32_t(strtol(name.c_str() + 3, nullptr, 10)) : 0;
  int32_t found = 10 * attribute(deviceCapabilityMajor) + attribute(deviceCapabilityMinor);
  bool isExact = !name.empty() && name.back() == 'a';
  if (needed > 0 && (isExact ? found == needed : found >= needed))
    return Status();
  return Status::failure(
      format("compiled for cuda:%s, but this GPU, %s, is sm_%d", name.c_str(), description().c_str(), found));
}

Status CudaDevice::open(std::string_view architecture, const std::string &selector) {
  beginOpen();
  HEDDLE_RETURN_IF_ERROR(api.open());
  HEDDLE_RETURN_IF_ERROR(check("cuInit", api.cuInit(0)));
  HEDDLE_RETURN_IF_ERROR(findDevice(selector));
  HEDDLE_RETURN_IF_ERROR(checkArchitecture(architecture));
  HEDDLE_RETURN_IF_ERROR(check("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain(&context, device)));
  HEDDLE_RETURN_IF_ERROR(check("cuCtxSetCurrent", api.cuCtxSetCurrent(context)));
  HEDDLE_RETURN_IF_ERROR(check("cuStreamCreate", api.cuStreamCreate(&stream, streamNonBlocking)));
  return api.graphs.isOk() ? check("cuStreamCreate", api.cuStreamCreate(&recording, streamNonBlocking)) : Status();
}

std::string CudaDevice::description() const {
  char name[256] = "?";
  int32_t version = 0;
  api.cuDeviceGetName(name, sizeof name, device);
  api.cuDriverGetVersion(&version);
  return format("%s (CUDA driver %d.%d)", name, version / 1000, version % 1000 / 10);
}

Status CudaDevice::allocate(uint64_t size, const char *what, uint8_t *&outAddress) {
  Address address = 0;
  api.cuCtxSetCurrent(context);
  if (api.cuMemAlloc(&address, size) != success)
    return outOfMemory(format("no device memory for %llu bytes of %s", (unsigned long long)size, what));
  outAddress = reinterpret_cast<uint8_t *>(address); // NOLINT(performance-no-int-to-ptr)
  return Status();
}

void CudaDevice::release(uint8_t *address) {
  api.cuCtxSetCurrent(context);
  api.cuStreamSynchronize(stream);
  api.cuMemFree(Address(address));
}

// Locked pages, which the device reads by itself.
Status CudaDevice::allocateOnHost(uint64_t size, const char *what, uint8_t *&outAddress) {
  void *memory = nullptr;
  api.cuCtxSetCurrent(context);
  if (api.cuMemHostAlloc(&memory, size, 0) != success)
    return outOfMemory(format("no locked memory for %llu bytes of %s", (unsigned long long)size, what));
  outAddress = static_cast<uint8_t *>(memory);
  return Status();
}

void CudaDevice::releaseOnHost(uint8_t *address) {
  api.cuCtxSetCurrent(context);
  api.cuStreamSynchronize(stream);
  api.cuMemFreeHost(address);
}

// To memory of the host whose pages are not locked, the driver waits by itself.
Status CudaDevice::transfer(Direction direction, void *to, const void *from, uint64_t size) {
  api.cuCtxSetCurrent(context);
  switch (direction) {
  case Direction::Upload:
    return check("an upload", api.cuMemcpyHtoDAsync(Address(to), from, size, queue()));
  case Direction::Download:
    return check("a download", api.cuMemcpyDtoHAsync(to, Address(from), size, queue()));
  case Direction::Copy:
    return check("a copy", api.cuMemcpyDtoDAsync(Address(to), Address(from), size, queue()));
  }
  return Status();
}

Status CudaDevice::loadFunction(const heddle_launch &launch, Function &outFunction) {
  Module module = nullptr;
  for (const LoadedModule &loaded : modules)
    if (loaded.code == launch.code)
      module = loaded.module;
  if (!module) {
    HEDDLE_RETURN_IF_ERROR(modules.makeRoom());
    HEDDLE_RETURN_IF_ERROR(check("loading PTX", api.cuModuleLoadData(&module, launch.code)));
    modules.add({launch.code, module});
    ++counted.builtPrograms;
  }
  return check(launch.entry, api.cuModuleGetFunction(&outFunction, module, launch.entry));
}

Status CudaDevice::functionOf(const heddle_launch &launch, Function &outFunction) {
  for (const LoadedFunction &loaded : functions)
    if (loaded.code == launch.code && (loaded.entry == launch.entry || strcmp(loaded.entry, launch.entry) == 0)) {
      outFunction = loaded.function;
      return Status();
    }
  HEDDLE_RETURN_IF_ERROR(functions.makeRoom());
  HEDDLE_RETURN_IF_ERROR(loadFunction(launch, outFunction));
  functions.add({launch.code, launch.entry, outFunction});
  return Status();
}

Status CudaDevice::launch(const heddle_launch &launch) {
  api.cuCtxSetCurrent(context);
  Function function = nullptr;
  HEDDLE_RETURN_IF_ERROR(functionOf(launch, function));
  // More is given to those who ask; what a kernel declares counts as well, so that nobody may ask for all there is.
  if (launch.shared_bytes > sharedWithoutAsking)
    HEDDLE_RETURN_IF_ERROR(
        check(launch.entry, api.cuFuncSetAttribute(function, functionMaxDynamicShared, int32_t(launch.shared_bytes))));
  return check(launch.entry,
               api.cuLaunchKernel(function, launch.blocks[0], launch.blocks[1], launch.blocks[2], launch.threads[0],
                                  launch.threads[1], launch.threads[2], launch.shared_bytes, queue(),
                                  const_cast<void **>(launch.arguments), nullptr));
}

Status CudaDevice::finish() {
  api.cuCtxSetCurrent(context);
  return check("a kernel", api.cuStreamSynchronize(stream));
}

// This thread's calls that cannot be part of a graph fail until the end, those of others do not.
Status CudaDevice::beginCapture() {
  HEDDLE_RETURN_IF_ERROR(api.graphs);
  api.cuCtxSetCurrent(context);
  return check("cuStreamBeginCapture", api.cuStreamBeginCapture(recording, captureThreadLocal));
}

Status CudaDevice::endCapture(void *&outGraph) {
  Graph graph = nullptr;
  GraphExec executable = nullptr;
  outGraph = nullptr;
  HEDDLE_RETURN_IF_ERROR(check("cuStreamEndCapture", api.cuStreamEndCapture(recording, &graph)));
  Status status = check("cuGraphInstantiate", api.cuGraphInstantiate(&executable, graph, 0));
  api.cuGraphDestroy(graph);
  outGraph = executable;
  return status;
}

Status CudaDevice::launchGraph(void *graph) {
  api.cuCtxSetCurrent(context);
  return check("cuGraphLaunch", api.cuGraphLaunch(static_cast<GraphExec>(graph), stream));
}

void CudaDevice::destroyGraph(void *graph) {
  api.cuCtxSetCurrent(context);
  api.cuStreamSynchronize(stream);
  api.cuGraphExecDestroy(static_cast<GraphExec>(graph));
}

Status openCuda(std::string_view architecture, const std::string &selector, std::unique_ptr<Device> &outDevice) {
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  HEDDLE_RETURN_IF_ERROR(device->open(architecture, selector));
  outDevice = std::move(device);
  return Status();
}

} // namespace heddle
