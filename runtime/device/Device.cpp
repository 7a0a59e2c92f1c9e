// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/device/Device.h"

#include <cstdlib>

namespace heddle {
namespace {

constexpr std::string_view cudaPrefix = "cuda:";

} // namespace

bool isDeviceTarget(std::string_view target) {
  return target == "opencl" || target.substr(0, cudaPrefix.size()) == cudaPrefix;
}

Status Device::open(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice) {
  if (target == "opencl")
    return openOpenCl(selector, outDevice);
  if (isDeviceTarget(target))
    return openCuda(target.substr(cudaPrefix.size()), selector, outDevice);
  return Status::failure("no device is called '" + std::string(target) + "'");
}

Device::Device() {
  heddle_device::launch = [](heddle_device *device, const heddle_launch *launch) {
    static_cast<Device *>(device)->enqueue(*launch);
  };
}

Device::~Device() {
  pthread_mutex_destroy(&mutex);
}

void Device::enqueue(const heddle_launch &newLaunch) {
  MutexLock lock(mutex);
  if (failed.isOk())
    failed = launch(newLaunch);
}

Status Device::synchronise() {
  MutexLock lock(mutex);
  Status status = finish();
  if (!failed.isOk())
    std::swap(status, failed);
  failed = Status();
  return status;
}

Status selectDevice(const char *kind, const std::string &selector, const std::string *names, size_t count,
                    size_t &outIndex) {
  char *end = nullptr;
  unsigned long number = strtoul(selector.c_str(), &end, 10);
  bool isNumber = !selector.empty() && !*end;
  std::string known;
  for (size_t i = 0; i < count; ++i) {
    if (isNumber ? number == i : names[i].find(selector) != std::string::npos) {
      outIndex = i;
      return Status();
    }
    known += format("%s%zu %s", i ? ", " : "", i, names[i].c_str());
  }
  return invalidInput(format("--device: there is no %s device '%s', only: ", kind, selector.c_str()) + known);
}

} // namespace heddle
