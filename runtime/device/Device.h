// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device that kernels run on instead of the CPU: memory, copies and launches, all in the order they are called. OpenCL and
// CUDA are two implementations (OpenClDevice.cpp, CudaDevice.cpp); each opens its driver by dlopen, so that an output runs,
// and can say what is missing, on a machine without one. Safe to call from several threads.
#ifndef HEDDLE_RUNTIME_DEVICE_DEVICE_H
#define HEDDLE_RUNTIME_DEVICE_DEVICE_H

#include "bytes/Allocator.h"
#include "bytes/MemoryScope.h"
#include "bytes/Status.h"
#include "runtime/device/TokenChoice.h"
#include "runtime/device/TokenChooser.h"
#include "runtime/model/ModelAbi.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <pthread.h>
#include <string_view>
#include <type_traits>

namespace heddle {

// What a device was asked for since it was opened. Transfers are those within graphs as well.
struct DeviceCounts {
  uint64_t launches = 0;                        // of kernels, one by one
  uint64_t graphLaunches = 0, graphKernels = 0; // of graphs, and how many kernels those ran
  uint64_t waits = 0;
  uint64_t uploads = 0, uploadedBytes = 0, downloads = 0, downloadedBytes = 0;
  uint64_t copies = 0, copiedBytes = 0; // within its memory
  uint64_t builtPrograms = 0;           // by the driver's compiler
  uint64_t cachedPrograms = 0;          // that another process had built
};

// Launches and transfers that the driver keeps, to run as one.
struct DeviceGraph {
  void *handle = nullptr; // the driver's; null: there is no graph
  DeviceCounts counts;    // of what was recorded
};

// Addresses are the device's: the host computes with them and never reads through them.
class Device {
public:
  // `selector` is what --device says: a number, part of a name, or empty for the best device there is.
  static Status open(std::string_view target, const std::string &selector, std::unique_ptr<Device> &outDevice);
  virtual ~Device() {
    pthread_mutex_destroy(&recordersTurn);
    pthread_mutex_destroy(&mutex);
  }

  virtual std::string description() const = 0; // its name, and the driver's
  // Memory until the device is closed or the address released; `what` is named in the error.
  virtual Status allocate(uint64_t size, const char *what, uint8_t *&outAddress) = 0;
  virtual void release(uint8_t *address) = 0;
  // Memory of the host that the device copies from without another copy between.
  virtual Status allocateOnHost(uint64_t size, const char *what, uint8_t *&outAddress);
  virtual void releaseOnHost(uint8_t *address);

  // Transfers, in the order of the launches. The host's bytes stay as they are, and are not there yet, until the next
  // wait.
  Status enqueueUpload(uint8_t *to, const void *from, uint64_t size);
  Status enqueueDownload(void *to, const uint8_t *from, uint64_t size);
  Status copy(uint8_t *to, const uint8_t *from, uint64_t size); // both are the device's
  // The first, and a wait.
  Status upload(uint8_t *to, const void *from, uint64_t size);
  Status download(void *to, const uint8_t *from, uint64_t size);
  // Waits for all that was enqueued.
  Status synchronise();
  // Enqueues a kernel.
  Status enqueue(const heddle_launch &launch);

  // Why nothing can be recorded here; a success where it can.
  virtual Status canRecord() const { return Status::failure("this kind of device has none"); }
  // What this thread enqueues between the two does not run, but becomes a graph: kernels with the values of their arguments, transfers with
  // their addresses, which move what lies there whenever the graph runs. Each of the kernels has run before, the host's memory is that of
  // allocateOnHost, and nobody waits meanwhile. The second is called in any case where the first has not failed.
  Status beginRecording();
  Status endRecording(DeviceGraph &outGraph);
  Status enqueueGraph(const DeviceGraph &graph);
  // Once nothing runs it. Does nothing where there is none.
  void releaseGraph(DeviceGraph &graph);

  virtual TokenChooser chooser() const = 0;

  DeviceCounts counts();

protected:
  enum class Direction : uint8_t { Upload, Download, Copy };

  virtual Status launch(const heddle_launch &launch) = 0;
  virtual Status transfer(Direction direction, void *to, const void *from, uint64_t size) = 0; // enqueues it; size > 0
  virtual Status finish() = 0;
  // What canRecord() promises. endCapture() gives no graph where it fails.
  virtual Status beginCapture() { return canRecord(); }
  virtual Status endCapture(void *&outGraph) { return outGraph = nullptr, canRecord(); }
  virtual Status launchGraph(void *) { return canRecord(); }
  virtual void destroyGraph(void *) {}
  // Whether what the calling thread, which holds the mutex, enqueues is recorded.
  bool isRecording() const { return hasRecorder && pthread_equal(recorder, pthread_self()); }
  // Gives back what the driver has given, but for memory; once it has, there is nothing to give.
  virtual void close() {}
  // Called before the driver is asked for anything: where the call that opens the device lacks memory, no destructor runs, and the
  // MemoryScope closes it.
  void beginOpen() { MemoryScope::enter(&driver); }
  // What an implementation's destructor does.
  void endClose() {
    MemoryScope::leave(&driver);
    close();
  }

  // Whoever launches, transfers or waits holds the mutex: a kernel's arguments are set, then it is enqueued.
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  DeviceCounts counted;

private:
  DeviceCounts &countsOfThread() { return isRecording() ? recorded : counted; }
  Status enqueueTransfer(Direction direction, void *to, const void *from, uint64_t size);

  struct Driver : MemoryScope::Resource {
    explicit Driver(Device *device)
        : Resource([](Resource *resource) { static_cast<Driver *>(resource)->device->close(); }), device(device) {}
    Device *device;
  } driver{this};
  // One thread records at a time; others go on to launch.
  pthread_mutex_t recordersTurn = PTHREAD_MUTEX_INITIALIZER;
  bool hasRecorder = false;
  pthread_t recorder = {};
  DeviceCounts recorded;
};

// What a device keeps of the code that it has loaded. It grows while a step launches and holds the device's lock: where memory lacks, the
// step fails with a status, and no MemoryScope gives back what the device goes on using.
template <typename T> class LoadedList {
public:
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes and never destroyed");

  LoadedList() = default;
  LoadedList(const LoadedList &) = delete;
  LoadedList &operator=(const LoadedList &) = delete;
  ~LoadedList() { releaseMemory(items); }

  // Called before the driver is asked for what add() will keep.
  Status makeRoom() {
    if (count < capacity)
      return Status();
    size_t wanted = capacity ? 2 * capacity : 16;
    auto *grown = static_cast<T *>(allocateMemory(wanted * sizeof(T), alignof(std::max_align_t)));
    if (!grown)
      return outOfMemory();
    if (count)
      memcpy(static_cast<void *>(grown), items, count * sizeof(T));
    releaseMemory(items);
    items = grown;
    capacity = wanted;
    return Status();
  }
  void add(const T &item) { new (&items[count++]) T(item); }
  const T *begin() const { return items; }
  const T *end() const { return items + count; }

private:
  T *items = nullptr;
  size_t count = 0, capacity = 0;
};

// The launches of one step, heddle_step::device. Code of a step has nobody to tell that one failed: it is kept for finish(), and is this
// step's alone, whatever other steps the device runs.
class StepLaunches : public heddle_device {
public:
  StepLaunches();
  void begin(Device &newDevice);
  // Enqueues what the step has no code for: the token that is chosen from each of `rows` rows of `count` logits. `choices` null: the largest.
  void chooseTokens(const float *logits, const heddle_token_choice *choices, int64_t rows, int32_t count,
                    int32_t *outIds);
  // The first launch that failed.
  const Status &failure() const { return failed; }
  // Waits for all that was enqueued. Fails with the first launch that failed.
  Status finish();

private:
  Device *device = nullptr;
  Status failed;
};

// Memory that a device gives, which it has to go before.
template <Status (Device::*take)(uint64_t, const char *, uint8_t *&), void (Device::*give)(uint8_t *)>
class MemoryOfDevice {
public:
  MemoryOfDevice() = default;
  MemoryOfDevice(const MemoryOfDevice &) = delete;
  MemoryOfDevice &operator=(const MemoryOfDevice &) = delete;
  ~MemoryOfDevice() { release(); }
  void release() {
    MemoryScope::leave(&held);
    held.giveBack();
  }
  Status allocate(Device &device, uint64_t size, const char *what) {
    HEDDLE_RETURN_IF_ERROR((device.*take)(size ? size : 1, what, held.address));
    held.owner = &device;
    MemoryScope::enter(&held);
    return Status();
  }
  uint8_t *data() const { return held.address; }
  template <typename T> T *as() const { return reinterpret_cast<T *>(held.address); }

private:
  struct Held : MemoryScope::Resource {
    Held() : Resource([](Resource *resource) { static_cast<Held *>(resource)->giveBack(); }) {}
    void giveBack() {
      if (address)
        (owner->*give)(address);
      address = nullptr;
    }
    Device *owner = nullptr;
    uint8_t *address = nullptr;
  } held;
};

using DeviceMemory = MemoryOfDevice<&Device::allocate, &Device::release>;
using TransferMemory = MemoryOfDevice<&Device::allocateOnHost, &Device::releaseOnHost>; // of the host

// The implementations; `architecture` is what follows the colon of the target.
Status openOpenCl(const std::string &selector, std::unique_ptr<Device> &outDevice);
Status openCuda(std::string_view architecture, const std::string &selector, std::unique_ptr<Device> &outDevice);

// What a selector names among devices: an index, or part of a name. The first device without one.
Status selectDevice(const char *kind, const std::string &selector, const std::string *names, size_t count,
                    size_t &outIndex);

} // namespace heddle

#endif
