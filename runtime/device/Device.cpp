// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/device/Device.h"

#include "bytes/MutexLock.h"
#include "runtime/model/ModelKind.h"

#include <cstdlib>

namespace heddle {

Status Device::open(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice) {
  if (target == "opencl")
    return openOpenCl(selector, outDevice);
  if (isCudaTarget(target))
    return openCuda(target.substr(cudaTargetPrefix.size()), selector, outDevice);
  return Status::failure("no device is called '" + std::string(target) + "'");
}

Status Device::allocateOnHost(uint64_t size, const char *what, uint8_t *&outAddress) {
  outAddress = static_cast<uint8_t *>(allocateMemory(size, 64));
  return outAddress ? Status() : outOfMemory(format("no memory for %llu bytes of %s", (unsigned long long)size, what));
}

void Device::releaseOnHost(uint8_t *address) {
  releaseMemory(address);
}

Status Device::enqueueTransfer(Direction direction, void *to, const void *from, uint64_t size) {
  if (!size)
    return Status();
  MutexLock lock(mutex);
  bool isUpload = direction == Direction::Upload, isDownload = direction == Direction::Download;
  DeviceCounts &counts = countsOfThread();
  ++(isUpload ? counts.uploads : isDownload ? counts.downloads : counts.copies);
  (isUpload ? counts.uploadedBytes : isDownload ? counts.downloadedBytes : counts.copiedBytes) += size;
  return transfer(direction, to, from, size);
}

Status Device::enqueueUpload(uint8_t *to, const void *from, uint64_t size) {
  return enqueueTransfer(Direction::Upload, to, from, size);
}

Status Device::enqueueDownload(void *to, const uint8_t *from, uint64_t size) {
  return enqueueTransfer(Direction::Download, to, from, size);
}

Status Device::copy(uint8_t *to, const uint8_t *from, uint64_t size) {
  return enqueueTransfer(Direction::Copy, to, from, size);
}

Status Device::upload(uint8_t *to, const void *from, uint64_t size) {
  HEDDLE_RETURN_IF_ERROR(enqueueUpload(to, from, size));
  return synchronise();
}

Status Device::download(void *to, const uint8_t *from, uint64_t size) {
  HEDDLE_RETURN_IF_ERROR(enqueueDownload(to, from, size));
  return synchronise();
}

Status Device::enqueue(const heddle_launch &newLaunch) {
  MutexLock lock(mutex);
  ++countsOfThread().launches;
  return launch(newLaunch);
}

Status Device::beginRecording() {
  pthread_mutex_lock(&recordersTurn);
  MutexLock lock(mutex);
  Status status = beginCapture();
  hasRecorder = status.isOk();
  recorder = pthread_self();
  recorded = DeviceCounts();
  if (!hasRecorder)
    pthread_mutex_unlock(&recordersTurn);
  return status;
}

Status Device::endRecording(DeviceGraph &outGraph) {
  MutexLock lock(mutex);
  Status status = endCapture(outGraph.handle);
  outGraph.counts = recorded;
  hasRecorder = false;
  pthread_mutex_unlock(&recordersTurn);
  return status;
}

Status Device::enqueueGraph(const DeviceGraph &graph) {
  MutexLock lock(mutex);
  ++counted.graphLaunches;
  counted.graphKernels += graph.counts.launches;
  counted.uploads += graph.counts.uploads;
  counted.uploadedBytes += graph.counts.uploadedBytes;
  counted.downloads += graph.counts.downloads;
  counted.downloadedBytes += graph.counts.downloadedBytes;
  counted.copies += graph.counts.copies;
  counted.copiedBytes += graph.counts.copiedBytes;
  return launchGraph(graph.handle);
}

void Device::releaseGraph(DeviceGraph &graph) {
  if (!graph.handle)
    return;
  MutexLock lock(mutex);
  destroyGraph(graph.handle);
  graph = DeviceGraph();
}

Status Device::synchronise() {
  MutexLock lock(mutex);
  ++counted.waits;
  return finish();
}

DeviceCounts Device::counts() {
  MutexLock lock(mutex);
  return counted;
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

void StepLaunches::chooseTokens(const float *logits, const heddle_token_choice *choices, int64_t rows, int32_t count,
                                int32_t *outIds) {
  TokenChooser chooser = device->chooser();
  const void *arguments[4];
  size_t sizes[4];
  heddle_launch choose = {};
  auto add = [&](const void *value, size_t size) {
    arguments[choose.num_arguments] = value;
    sizes[choose.num_arguments++] = size;
  };
  add(static_cast<const void *>(&logits), 0);
  if (chooser.takesChoices)
    add(static_cast<const void *>(&choices), 0);
  add(static_cast<const void *>(&outIds), 0);
  add(&count, sizeof count);
  choose.code = chooser.code;
  choose.entry = chooser.entry;
  choose.blocks[0] = uint32_t(rows);
  choose.threads[0] = chooser.threads;
  for (int axis = 1; axis < 3; ++axis)
    choose.blocks[axis] = choose.threads[axis] = 1;
  choose.shared_bytes = chooser.sharedBytes;
  choose.arguments = const_cast<void *const *>(arguments);
  choose.argument_sizes = sizes;
  launch(this, &choose);
}

Status StepLaunches::finish() {
  Status status = device->synchronise();
  return failed.isOk() ? status : failed;
}

Status selectDevice(const char *kind, const std::string &selector, const std::string *names, size_t count,
                    size_t &outIndex) {
  // A number that no device has is part of a name: "4090".
  char *end = nullptr;
  unsigned long number = strtoul(selector.c_str(), &end, 10);
  bool isNumber = !selector.empty() && !*end && number < count;
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
