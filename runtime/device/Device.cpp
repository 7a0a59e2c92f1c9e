// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/device/Device.h"

#include "bytes/MutexLock.h"

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

Status Device::enqueue(const heddle_launch &newLaunch) {
  MutexLock lock(mutex);
  return launch(newLaunch);
}

Status Device::synchronise() {
  MutexLock lock(mutex);
  return finish();
}

StepLaunches::StepLaunches() {
  launch = [](heddle_device *step, const heddle_launch *launch) {
    auto &self = *static_cast<StepLaunches *>(step);
    if (self.failed.isOk())
      self.failed = self.device->enqueue(*launch);
  };
}

void StepLaunches::begin(Device &newDevice) {
  device = &newDevice;
  failed = Status();
}

Status StepLaunches::finish() {
  Status status = device->synchronise();
  return failed.isOk() ? status : failed;
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
  return invalidInput(format("device: there is no %s device '%s', only: ", kind, selector.c_str()) + known);
}

} // namespace heddle
