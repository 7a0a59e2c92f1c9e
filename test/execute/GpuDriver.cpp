// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/execute/GpuDriver.h"

#include "runtime/device/CudaApi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

namespace {

using Access = ptx::Memory::Access;

constexpr size_t guardBytes = 4096; // on both sides of a copy
constexpr uint8_t guardByte = 0xa5;
constexpr uint32_t sharedWithoutAsking = 48 * 1024;

// What a program does not ask for.
enum : int32_t { jitInfoLog = 3, jitInfoLogBytes = 4, jitErrorLog = 5, jitErrorLogBytes = 6, jitLogVerbose = 12 };

struct EventHandle;
using Event = EventHandle *;

struct TestApi : cuda::Api {
  int32_t (*cuModuleLoadDataEx)(cuda::Module *, const void *, uint32_t, int32_t *, void **) = nullptr;
  int32_t (*cuFuncGetAttribute)(int32_t *, int32_t, cuda::Function) = nullptr;
  int32_t (*cuEventCreate)(Event *, uint32_t) = nullptr;
  int32_t (*cuEventRecord)(Event, cuda::Stream) = nullptr;
  int32_t (*cuEventSynchronize)(Event) = nullptr;
  int32_t (*cuEventElapsedTime)(float *, Event, Event) = nullptr;
  int32_t (*cuEventDestroy)(Event) = nullptr;

  Status open() {
    HEDDLE_RETURN_IF_ERROR(Api::open());
    DynamicLibrary library;
    HEDDLE_RETURN_IF_ERROR(library.open("libcuda.so.1", "no CUDA driver on this machine"));
    HEDDLE_RETURN_IF_ERROR(library.load("cuModuleLoadDataEx", cuModuleLoadDataEx));
    HEDDLE_RETURN_IF_ERROR(library.load("cuFuncGetAttribute", cuFuncGetAttribute));
    HEDDLE_RETURN_IF_ERROR(library.load("cuEventCreate", cuEventCreate));
    HEDDLE_RETURN_IF_ERROR(library.load("cuEventRecord", cuEventRecord));
    HEDDLE_RETURN_IF_ERROR(library.load("cuEventSynchronize", cuEventSynchronize));
    HEDDLE_RETURN_IF_ERROR(library.load("cuEventElapsedTime", cuEventElapsedTime));
    return library.load("cuEventDestroy_v2", cuEventDestroy);
  }
};

// A range of the process and its copy between two guards.
struct Copy {
  ptx::Memory::Span span;
  cuda::Address allocation = 0;
};

class OpenDriver;

// A kernel whose operands lie on the device.
class Prepared {
public:
  Prepared(OpenDriver &driver, const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
           const void *const *arguments, const ptx::Memory &memory);
  ~Prepared();
  Prepared(const Prepared &) = delete;
  Prepared &operator=(const Prepared &) = delete;

  void launch();
  // What launches wrote is undone.
  void reset();
  // Each range with its guards. Throws where a guard, or what may only be read, is not what it was.
  std::vector<std::vector<uint8_t>> results();
  void keep(const std::vector<std::vector<uint8_t>> &results);

private:
  void copyToDevice(const ptx::Memory::Span &span);
  void moveArguments(const ptx::Kernel &kernel, const void *const *arguments);
  std::vector<uint8_t> copyBack(const Copy &copy);

  OpenDriver &driver;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  ptx::Launch shape;
  std::vector<Copy> copies;
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
};

class OpenDriver final : public GpuDriver {
public:
  OpenDriver();
  int capability() override;
  void run(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch, const void *const *arguments,
           const ptx::Memory &memory) override;
  std::vector<float> time(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                          const void *const *arguments, const ptx::Memory &memory, int rounds) override;

private:
  friend class Prepared;

  void check(const std::string &what, int32_t code) const;
  cuda::Module load(const std::string &text, std::string &log);
  void writeResources(const std::string &name, cuda::Function function, const std::string &log) const;

  TestApi api;
  cuda::DeviceId device = 0;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  int repeats = 1;
};

} // namespace

void OpenDriver::check(const std::string &what, int32_t code) const {
  if (code == cuda::success)
    return;
  const char *name = "an unknown error";
  api.cuGetErrorName(code, &name);
  throw ptx::Error(what + ": " + name + " (" + std::to_string(code) + ")");
}

OpenDriver::OpenDriver() {
  if (Status status = api.open(); !status.isOk())
    throw ptx::Error(status.message());
  check("cuInit", api.cuInit(0));
  check("cuDeviceGet", api.cuDeviceGet(&device, 0));
  check("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain(&context, device));
  check("cuCtxSetCurrent", api.cuCtxSetCurrent(context));
  check("cuStreamCreate", api.cuStreamCreate(&stream, cuda::streamNonBlocking));
  if (const char *value = getenv("HEDDLE_GPU_REPEATS"))
    repeats = std::max(1, atoi(value));
}

int OpenDriver::capability() {
  int32_t major = 0, minor = 0;
  check("cuDeviceGetAttribute", api.cuDeviceGetAttribute(&major, cuda::deviceCapabilityMajor, device));
  check("cuDeviceGetAttribute", api.cuDeviceGetAttribute(&minor, cuda::deviceCapabilityMinor, device));
  return 10 * major + minor;
}

GpuDriver *GpuDriver::get() {
  const char *where = getenv("HEDDLE_GPU_TESTS");
  if (!where || strcmp(where, "driver") != 0)
    return nullptr;
  static OpenDriver driver;
  return &driver;
}

cuda::Module OpenDriver::load(const std::string &text, std::string &log) {
  char info[16384] = "", error[16384] = "";
  int32_t options[] = {jitInfoLog, jitInfoLogBytes, jitErrorLog, jitErrorLogBytes, jitLogVerbose};
  auto number = [](uintptr_t value) { return reinterpret_cast<void *>(value); }; // NOLINT(performance-no-int-to-ptr)
  void *values[] = {info, number(sizeof info), error, number(sizeof error), number(1)};
  cuda::Module module = nullptr;
  int32_t code = api.cuModuleLoadDataEx(&module, text.c_str(), 5, options, values);
  check("loading PTX: " + std::string(error), code);
  log = info;
  return module;
}

void OpenDriver::writeResources(const std::string &name, cuda::Function function, const std::string &log) const {
  const char *path = getenv("HEDDLE_GPU_RESOURCES");
  FILE *file = path ? fopen(path, "a") : nullptr;
  if (!file)
    return;
  auto attribute = [&](int32_t which) {
    int32_t value = -1;
    api.cuFuncGetAttribute(&value, which, function);
    return value;
  };
  std::string line;
  for (char c : log) // what JSON may hold as it is
    line += c == '"' || c == '\\' || uint8_t(c) < 0x20 ? ' ' : c;
  fprintf(file, "{\"kernel\": \"%s\", \"registers\": %d, \"local_bytes\": %d, \"shared_bytes\": %d, \"log\": \"%s\"}\n",
          name.c_str(), attribute(cuda::functionRegisters), attribute(cuda::functionLocalBytes),
          attribute(cuda::functionSharedBytes), line.c_str());
  fclose(file);
}

Prepared::Prepared(OpenDriver &driver, const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                   const void *const *arguments, const ptx::Memory &memory)
    : driver(driver), shape(launch) {
  driver.check("cuCtxSetCurrent", driver.api.cuCtxSetCurrent(driver.context));
  std::string log;
  module = driver.load(text, log);
  driver.check(kernel.name, driver.api.cuModuleGetFunction(&function, module, kernel.name.c_str()));
  driver.writeResources(kernel.name, function, log);
  if (launch.sharedBytes > sharedWithoutAsking)
    driver.check("shared memory",
                 driver.api.cuFuncSetAttribute(function, cuda::functionMaxDynamicShared, int32_t(launch.sharedBytes)));
  for (const ptx::Memory::Span &span : memory.spans())
    copyToDevice(span);
  moveArguments(kernel, arguments);
}

Prepared::~Prepared() {
  for (const Copy &copy : copies)
    driver.api.cuMemFree(copy.allocation);
  driver.api.cuModuleUnload(module);
}

void Prepared::copyToDevice(const ptx::Memory::Span &span) {
  const cuda::Api &api = driver.api;
  Copy copy{span};
  driver.check("memory of the device", api.cuMemAlloc(&copy.allocation, span.size + 2 * guardBytes));
  copies.push_back(copy);
  std::vector<uint8_t> guard(guardBytes, guardByte);
  auto upload = [&](cuda::Address to, const void *from, size_t size) {
    if (size)
      driver.check("an upload", api.cuMemcpyHtoDAsync(to, from, size, driver.stream));
  };
  upload(copy.allocation, guard.data(), guardBytes);
  upload(copy.allocation + guardBytes, span.begin, span.size);
  upload(copy.allocation + guardBytes + span.size, guard.data(), guardBytes);
  driver.check("an upload", api.cuStreamSynchronize(driver.stream));
}

void Prepared::moveArguments(const ptx::Kernel &kernel, const void *const *arguments) {
  values.resize(kernel.parameters.size());
  for (size_t i = 0; i < values.size(); ++i) {
    memcpy(&values[i], arguments[i], kernel.parameters[i].size);
    for (const Copy &copy : copies)
      if (uint64_t offset = values[i] - reinterpret_cast<uint64_t>(copy.span.begin);
          kernel.parameters[i].size == 8 && offset < copy.span.size) {
        values[i] = copy.allocation + guardBytes + offset;
        break;
      }
    pointers.push_back(&values[i]);
  }
}

void Prepared::launch() {
  driver.check("a launch", driver.api.cuLaunchKernel(function, shape.blocks[0], shape.blocks[1], shape.blocks[2],
                                                     shape.threads[0], shape.threads[1], shape.threads[2],
                                                     shape.sharedBytes, driver.stream, pointers.data(), nullptr));
}

void Prepared::reset() {
  for (const Copy &copy : copies)
    if (copy.span.access == Access::ReadWrite)
      driver.check("an upload", driver.api.cuMemcpyHtoDAsync(copy.allocation + guardBytes, copy.span.begin,
                                                             copy.span.size, driver.stream));
}

std::vector<uint8_t> Prepared::copyBack(const Copy &copy) {
  std::vector<uint8_t> bytes(copy.span.size + 2 * guardBytes);
  driver.check("a download", driver.api.cuMemcpyDtoHAsync(bytes.data(), copy.allocation, bytes.size(), driver.stream));
  driver.check("a kernel", driver.api.cuStreamSynchronize(driver.stream));
  for (size_t i = 0; i < guardBytes; ++i)
    if (bytes[i] != guardByte || bytes[guardBytes + copy.span.size + i] != guardByte)
      throw ptx::Error("a launch writes outside of its memory");
  if (copy.span.access == Access::Read && memcmp(bytes.data() + guardBytes, copy.span.begin, copy.span.size) != 0)
    throw ptx::Error("a launch writes to what it may only read");
  return bytes;
}

std::vector<std::vector<uint8_t>> Prepared::results() {
  std::vector<std::vector<uint8_t>> results;
  for (const Copy &copy : copies)
    results.push_back(copyBack(copy));
  return results;
}

void Prepared::keep(const std::vector<std::vector<uint8_t>> &results) {
  for (size_t i = 0; i < copies.size(); ++i)
    if (copies[i].span.access == Access::ReadWrite)
      memcpy(copies[i].span.begin, results[i].data() + guardBytes, copies[i].span.size);
}

void OpenDriver::run(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                     const void *const *arguments, const ptx::Memory &memory) {
  Prepared prepared(*this, text, kernel, launch, arguments, memory);
  prepared.launch();
  std::vector<std::vector<uint8_t>> first = prepared.results();
  for (int repeat = 1; repeat < repeats; ++repeat) {
    prepared.reset();
    prepared.launch();
    if (prepared.results() != first)
      throw ptx::Error(kernel.name + ": launch " + std::to_string(repeat + 1) + " leaves other bits than the first");
  }
  prepared.keep(first);
}

std::vector<float> OpenDriver::time(const std::string &text, const ptx::Kernel &kernel, const ptx::Launch &launch,
                                    const void *const *arguments, const ptx::Memory &memory, int rounds) {
  Prepared prepared(*this, text, kernel, launch, arguments, memory);
  Event begin = nullptr, end = nullptr;
  check("cuEventCreate", api.cuEventCreate(&begin, 0));
  check("cuEventCreate", api.cuEventCreate(&end, 0));
  prepared.launch();
  std::vector<float> microseconds;
  for (int round = 0; round < rounds; ++round) {
    check("cuEventRecord", api.cuEventRecord(begin, stream));
    prepared.launch();
    check("cuEventRecord", api.cuEventRecord(end, stream));
    check("a kernel", api.cuEventSynchronize(end));
    float milliseconds = 0;
    check("cuEventElapsedTime", api.cuEventElapsedTime(&milliseconds, begin, end));
    microseconds.push_back(milliseconds * 1000);
  }
  api.cuEventDestroy(begin);
  api.cuEventDestroy(end);
  return microseconds;
}
