// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OpenCL 2.0 and later. Memory is coarse-grained shared virtual memory: it has addresses that host code may add to,
// which buffer objects have not. Programs are built at their first launch: from what an earlier process left in the
// cache, else from source.
#include "bytes/CodeCache.h"
#include "runtime/device/Device.h"
#include "runtime/device/OpenClApi.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace heddle {
namespace {

using namespace opencl;

class OpenClDevice final : public Device {
public:
  ~OpenClDevice() override { endClose(); }
  Status open(const std::string &selector);

  std::string description() const override { return text(deviceName) + " (OpenCL driver " + text(driverVersion) + ")"; }
  Status allocate(uint64_t size, const char *what, uint8_t *&outAddress) override;
  void release(uint8_t *address) override;
  TokenChooser chooser() const override { return token_chooser::ofOpenCl(); }

protected:
  Status launch(const heddle_launch &launch) override;
  Status transfer(Direction direction, void *to, const void *from, uint64_t size) override;
  Status finish() override;
  void close() override;

private:
  struct LoadedKernel {
    const char *code, *entry;
    Kernel kernel;
  };
  struct LoadedProgram {
    const char *code;
    Program program;
  };

  Status findDevice(const std::string &selector);
  Status checkDevice();
  void openCache();
  Sha256Digest programKey(const char *source) const;
  const char *buildOptions() const;
  Status programOf(const char *code, Program &outProgram);
  Status findProgram(const Sha256Digest &key, Program &outProgram);
  Status buildProgram(const char *source, Program &outProgram);
  Status storeProgram(const Sha256Digest &key, Program program);
  Status kernelOf(const heddle_launch &launch, Kernel &outKernel);
  int32_t setArgument(Kernel kernel, const heddle_launch &launch, uint32_t index);
  std::string buildLog(Program program) const;
  std::string text(uint32_t property) const;
  template <typename T> T number(uint32_t property) const {
    T value = 0;
    return api.clGetDeviceInfo(device, property, sizeof(T), static_cast<void *>(&value), nullptr) == success ? value
                                                                                                             : 0;
  }

  Api api;
  DeviceId device = nullptr;
  Context context = nullptr;
  Queue queue = nullptr;
  CodeCache cache;
  Sha256 driverHash;                  // of what programs depend on besides their sources
  LoadedList<LoadedProgram> programs; // in order of first launch
  LoadedList<LoadedKernel> kernels;
};

Status error(const char *what, int32_t code) {
  return Status::failure(format("OpenCL: %s failed with code %d", what, code));
}

// Without blanks at its end, other blanks as spaces.
std::string oneLine(std::string value) {
  while (!value.empty() && isspace(uint8_t(value.back())))
    value.pop_back();
  for (char &c : value)
    c = isspace(uint8_t(c)) ? ' ' : c;
  return value;
}

// `read(capacity, buffer, outSize)`: a string of a driver, as one line.
template <typename Read> std::string readText(Read read) {
  size_t size = 0;
  if (read(0, nullptr, &size) != success || size == 0)
    return "?";
  std::string value(size, '\0');
  if (read(size, value.data(), nullptr) != success)
    return "?";
  value.resize(strlen(value.c_str()));
  return oneLine(std::move(value));
}

void addText(Sha256 &hash, std::string_view text) {
  uint64_t size = text.size();
  hash.update(&size, sizeof size);
  hash.update(text.data(), text.size());
}

std::string nameOf(const Api &api, DeviceId device, uint32_t property) {
  return readText([&](size_t size, void *value, size_t *outSize) {
    return api.clGetDeviceInfo(device, property, size, value, outSize);
  });
}

} // namespace

std::string OpenClDevice::text(uint32_t property) const {
  return nameOf(api, device, property);
}

void OpenClDevice::close() {
  if (queue)
    api.clFinish(queue);
  for (const LoadedKernel &loaded : kernels)
    api.clReleaseKernel(loaded.kernel);
  for (const LoadedProgram &loaded : programs)
    api.clReleaseProgram(loaded.program);
  if (queue)
    api.clReleaseCommandQueue(queue);
  if (context)
    api.clReleaseContext(context);
  queue = nullptr;
  context = nullptr;
}

Status OpenClDevice::findDevice(const std::string &selector) {
  uint32_t numPlatforms = 0;
  int32_t code = api.clGetPlatformIDs(0, nullptr, &numPlatforms);
  if (code == platformNotFound || numPlatforms == 0)
    return Status::failure("no OpenCL platform is installed: /etc/OpenCL/vendors names none");
  if (code != success)
    return error("clGetPlatformIDs", code);
  std::vector<Platform> platforms(numPlatforms);
  api.clGetPlatformIDs(numPlatforms, platforms.data(), nullptr);
  // GPUs first, so that the device without a number is the one that was meant.
  std::vector<DeviceId> devices;
  for (uint64_t type : {typeGpuOrAccelerator, typeCpu})
    for (Platform platform : platforms) {
      uint32_t count = 0;
      if (api.clGetDeviceIDs(platform, type, 0, nullptr, &count) != success || count == 0)
        continue;
      devices.resize(devices.size() + count);
      api.clGetDeviceIDs(platform, type, count, devices.data() + devices.size() - count, nullptr);
    }
  if (devices.empty())
    return Status::failure("no OpenCL device: the installed platforms have none");
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (DeviceId id : devices)
    names.push_back(nameOf(api, id, deviceName));
  size_t index = 0;
  HEDDLE_RETURN_IF_ERROR(selectDevice("OpenCL", selector, names.data(), names.size(), index));
  device = devices[index];
  return Status();
}

Status OpenClDevice::checkDevice() {
  // What kernels take by the tiles of threads of compiler/schedule/ScheduleTable.cpp.
  constexpr uint64_t mostThreads = 256, mostLocalBytes = 32 << 10;
  if (uint64_t threads = number<size_t>(deviceMaxWorkGroup), local = number<uint64_t>(deviceLocalMemory);
      threads < mostThreads || local < mostLocalBytes)
    return Status::failure(format("OpenCL device '%s' has work-groups of %llu threads and %llu bytes of local memory, "
                                  "expected %llu and %llu",
                                  text(deviceName).c_str(), (unsigned long long)threads, (unsigned long long)local,
                                  (unsigned long long)mostThreads, (unsigned long long)mostLocalBytes));
  if (number<uint64_t>(deviceSvmCapabilities) & svmCoarseGrainBuffer)
    return Status();
  return Status::failure("OpenCL device '" + text(deviceName) +
                         "' has no shared virtual memory, which OpenCL 2.0 calls coarse-grained buffers");
}

Status OpenClDevice::open(const std::string &selector) {
  beginOpen();
  HEDDLE_RETURN_IF_ERROR(api.open());
  HEDDLE_RETURN_IF_ERROR(findDevice(selector));
  HEDDLE_RETURN_IF_ERROR(checkDevice());
  int32_t code = success;
  context = api.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
  if (!context)
    return error("clCreateContext", code);
  queue = api.clCreateCommandQueueWithProperties(context, device, nullptr, &code);
  if (!queue)
    return error("clCreateCommandQueueWithProperties", code);
  openCache();
  return Status();
}

// PoCL keeps what it has built by itself, and takes for a binary as long as for all else: that is for whoever names a folder.
static bool keepsPrograms(const std::string &platform) {
  const char *folder = secure_getenv("HEDDLE_CACHE_DIR");
  return platform == "Portable Computing Language" && !(folder && *folder);
}

void OpenClDevice::openCache() {
  auto textOf = [&](uint32_t property) {
    return readText([&](size_t size, void *value, size_t *outSize) {
      return api.clGetPlatformInfo(number<Platform>(devicePlatform), property, size, value, outSize);
    });
  };
  if (keepsPrograms(textOf(platformName)))
    return;
  for (uint32_t property : {platformName, platformVersion})
    addText(driverHash, textOf(property));
  for (uint32_t property : {deviceVendor, deviceName, deviceVersion, driverVersion})
    addText(driverHash, text(property));
  addText(driverHash, buildOptions());
  cache.open(CodeKind::OpenCl);
}

Status OpenClDevice::allocate(uint64_t size, const char *what, uint8_t *&outAddress) {
  uint64_t largest = number<uint64_t>(deviceMaxAllocation);
  if (size > largest)
    return outOfMemory(format("%llu bytes of %s: OpenCL device '%s' allocates at most %llu at once",
                              (unsigned long long)size, what, text(deviceName).c_str(), (unsigned long long)largest));
  outAddress = static_cast<uint8_t *>(api.clSVMAlloc(context, memReadWrite, size, /*alignment=*/128));
  return outAddress ? Status()
                    : outOfMemory(format("no device memory for %llu bytes of %s", (unsigned long long)size, what));
}

void OpenClDevice::release(uint8_t *address) {
  api.clFinish(queue);
  api.clSVMFree(context, address);
}

Status OpenClDevice::transfer(Direction direction, void *to, const void *from, uint64_t size) {
  int32_t code = api.clEnqueueSVMMemcpy(queue, /*blocking=*/0, to, from, size, 0, nullptr, nullptr);
  return code == success ? Status()
                         : error(direction == Direction::Upload     ? "an upload"
                                 : direction == Direction::Download ? "a download"
                                                                    : "a copy",
                                 code);
}

Status OpenClDevice::programOf(const char *code, Program &outProgram) {
  for (const LoadedProgram &loaded : programs)
    if (loaded.code == code) {
      outProgram = loaded.program;
      return Status();
    }
  HEDDLE_RETURN_IF_ERROR(programs.makeRoom());
  Sha256Digest key = programKey(code);
  HEDDLE_RETURN_IF_ERROR(findProgram(key, outProgram));
  if (outProgram) {
    programs.add({code, outProgram});
    ++counted.cachedPrograms;
    return Status();
  }
  HEDDLE_RETURN_IF_ERROR(buildProgram(code, outProgram));
  programs.add({code, outProgram});
  ++counted.builtPrograms;
  return storeProgram(key, outProgram);
}

Sha256Digest OpenClDevice::programKey(const char *source) const {
  Sha256 hash = driverHash;
  addText(hash, source);
  return hash.finish();
}

const char *OpenClDevice::buildOptions() const {
  bool isExact = number<uint64_t>(deviceSingleFpConfig) & correctlyRoundedDivideSqrt;
  return isExact ? "-cl-fp32-correctly-rounded-divide-sqrt" : "";
}

// Null where the cache has none, or where the driver refuses what it has.
Status OpenClDevice::findProgram(const Sha256Digest &key, Program &outProgram) {
  outProgram = nullptr;
  CachedCode binary;
  HEDDLE_RETURN_IF_ERROR(cache.find(key, binary));
  if (binary.size() == 0)
    return Status();
  size_t size = binary.size();
  const uint8_t *bytes = binary.data();
  int32_t ofBinary = success, result = success;
  Program program = api.clCreateProgramWithBinary(context, 1, &device, &size, &bytes, &ofBinary, &result);
  if (!program)
    return Status();
  if (ofBinary == success && result == success &&
      api.clBuildProgram(program, 1, &device, buildOptions(), nullptr, nullptr) == success)
    outProgram = program;
  else
    api.clReleaseProgram(program);
  return Status();
}

Status OpenClDevice::buildProgram(const char *source, Program &outProgram) {
  int32_t result = success;
  Program program = api.clCreateProgramWithSource(context, 1, &source, nullptr, &result);
  if (!program)
    return error("clCreateProgramWithSource", result);
  result = api.clBuildProgram(program, 1, &device, buildOptions(), nullptr, nullptr);
  if (result == success) {
    outProgram = program;
    return Status();
  }
  Status status = result == buildProgramFailure
                      ? Status::failure("OpenCL: the driver's compiler says: " + buildLog(program))
                      : error("clBuildProgram", result);
  api.clReleaseProgram(program);
  return status;
}

// A driver that gives no binary has nothing to store.
Status OpenClDevice::storeProgram(const Sha256Digest &key, Program program) {
  size_t size = 0;
  if (!cache.isOpen() ||
      api.clGetProgramInfo(program, programBinarySizes, sizeof size, static_cast<void *>(&size), nullptr) != success ||
      size == 0 || size > CodeCache::largestBinary)
    return Status();
  CachedCode binary;
  HEDDLE_RETURN_IF_ERROR(binary.allocate(size));
  uint8_t *bytes = binary.data();
  if (api.clGetProgramInfo(program, programBinaries, sizeof bytes, static_cast<void *>(&bytes), nullptr) == success) {
    cache.store(key, binary);
    cache.trim();
  }
  return Status();
}

// The begin of what the driver's compiler says, as one line: it may say any amount, and memory may lack.
std::string OpenClDevice::buildLog(Program program) const {
  constexpr size_t shown = 3000;
  size_t size = 0;
  if (api.clGetProgramBuildInfo(program, device, programBuildLog, 0, nullptr, &size) != success || size == 0)
    return "?";
  auto *log = static_cast<char *>(allocateMemory(size, 1));
  if (!log)
    return "more than there is memory for";
  bool isRead = api.clGetProgramBuildInfo(program, device, programBuildLog, size, log, nullptr) == success;
  std::string text = isRead ? oneLine(std::string(log, strnlen(log, std::min(size, shown)))) : "?";
  releaseMemory(log);
  return text;
}

Status OpenClDevice::kernelOf(const heddle_launch &launch, Kernel &outKernel) {
  for (const LoadedKernel &loaded : kernels)
    if (loaded.code == launch.code && (loaded.entry == launch.entry || strcmp(loaded.entry, launch.entry) == 0)) {
      outKernel = loaded.kernel;
      return Status();
    }
  Program program = nullptr;
  HEDDLE_RETURN_IF_ERROR(programOf(launch.code, program));
  HEDDLE_RETURN_IF_ERROR(kernels.makeRoom());
  int32_t code = success;
  outKernel = api.clCreateKernel(program, launch.entry, &code);
  if (!outKernel)
    return Status::failure(format("OpenCL: no kernel %s in its program: code %d", launch.entry, code));
  kernels.add({launch.code, launch.entry, outKernel});
  return Status();
}

// The memory that a work-group shares is a kernel's last parameter.
int32_t OpenClDevice::setArgument(Kernel kernel, const heddle_launch &launch, uint32_t index) {
  if (index == launch.num_arguments)
    return api.clSetKernelArg(kernel, index, std::max<size_t>(1, launch.shared_bytes), nullptr);
  const void *value = launch.arguments[index];
  if (launch.argument_sizes[index])
    return api.clSetKernelArg(kernel, index, launch.argument_sizes[index], value);
  return api.clSetKernelArgSVMPointer(kernel, index, *static_cast<void *const *>(value));
}

Status OpenClDevice::launch(const heddle_launch &launch) {
  Kernel kernel = nullptr;
  HEDDLE_RETURN_IF_ERROR(kernelOf(launch, kernel));
  for (uint32_t index = 0; index <= launch.num_arguments; ++index)
    if (int32_t code = setArgument(kernel, launch, index); code != success)
      return Status::failure(
          format("OpenCL: argument %u of kernel %s is refused with code %d", index, launch.entry, code));
  size_t global[3], local[3];
  for (int axis = 0; axis < 3; ++axis) {
    local[axis] = launch.threads[axis];
    global[axis] = local[axis] * launch.blocks[axis];
  }
  int32_t code = api.clEnqueueNDRangeKernel(queue, kernel, 3, nullptr, global, local, 0, nullptr, nullptr);
  return code == success ? Status()
                         : Status::failure(format("OpenCL: kernel %s is refused with code %d", launch.entry, code));
}

Status OpenClDevice::finish() {
  int32_t code = api.clFinish(queue);
  return code == success ? Status() : error("clFinish", code);
}

Status openOpenCl(const std::string &selector, std::unique_ptr<Device> &outDevice) {
  std::unique_ptr<OpenClDevice> device(new OpenClDevice);
  HEDDLE_RETURN_IF_ERROR(device->open(selector));
  outDevice = std::move(device);
  return Status();
}

} // namespace heddle
