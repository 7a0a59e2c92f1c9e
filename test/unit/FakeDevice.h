// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_TEST_UNIT_FAKEDEVICE_H
#define HEDDLE_TEST_UNIT_FAKEDEVICE_H

#include "runtime/device/Device.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

namespace heddle {

// A device in the host's memory, whose addresses the host cannot read: no processor has memory there.
class FakeDevice final : public Device {
public:
  ~FakeDevice() override {
    EXPECT_TRUE(memory.empty()) << memory.size() << " allocations were not released";
    EXPECT_EQ(graphs, 0) << "graphs were not released";
  }

  std::string description() const override { return "fake"; }
  TokenChooser chooser() const override { return {"", "choose", 1, 0, true}; }
  Status allocate(uint64_t size, const char *what, uint8_t *&outAddress) override {
    if (size > largest)
      return outOfMemory(format("no device memory for %llu bytes of %s", (unsigned long long)size, what));
    auto *bytes = static_cast<uint8_t *>(calloc(size, 1));
    outAddress = addressOf(bytes);
    memory[outAddress] = bytes;
    return Status();
  }
  void release(uint8_t *address) override {
    free(memory.at(address));
    memory.erase(address);
  }

  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  template <typename T> static T *host(T *address) { return reinterpret_cast<T *>(uintptr_t(address) ^ unreadable); }

  uint64_t largest = uint64_t(1) << 30;
  bool failsToUpload = false, failsToCopy = false;
  int launches = 0;
  bool records = false, failsToRecord = false;
  int graphs = 0; // that there are

  Status canRecord() const override { return records ? Status() : Device::canRecord(); }

protected:
  Status launch(const heddle_launch &launch) override {
    if (isRecording()) {
      recorded->emplace_back([this, entry = std::string(launch.entry)] { return launchNamed(entry); });
      return Status();
    }
    return launchNamed(launch.entry);
  }
  Status launchNamed(const std::string &entry) {
    ++launches;
    return entry == "good" ? Status() : Status::failure(entry + " failed");
  }
  Status transfer(Direction direction, void *to, const void *from, uint64_t size) override {
    if (!isRecording())
      return move(direction, to, from, size);
    recorded->emplace_back([this, direction, to, from, size] { return move(direction, to, from, size); });
    return Status();
  }
  Status move(Direction direction, void *to, const void *from, uint64_t size) {
    auto hostOf = [](const void *address) { return host(static_cast<uint8_t *>(const_cast<void *>(address))); };
    if (direction == Direction::Copy && failsToCopy)
      return Status::failure("the copy failed");
    if (direction == Direction::Upload && failsToUpload)
      return Status::failure("the upload failed");
    memcpy(direction == Direction::Download ? to : hostOf(to), direction == Direction::Upload ? from : hostOf(from),
           size);
    return Status();
  }
  Status finish() override { return Status(); }
  Status beginCapture() override {
    recorded = new Operations;
    return canRecord();
  }
  Status endCapture(void *&outGraph) override {
    outGraph = nullptr;
    if (failsToRecord) {
      delete recorded;
      return Status::failure("the graph failed");
    }
    ++graphs;
    outGraph = recorded;
    return Status();
  }
  Status launchGraph(void *graph) override {
    for (const auto &operation : *static_cast<Operations *>(graph))
      HEDDLE_RETURN_IF_ERROR(operation());
    return Status();
  }
  void destroyGraph(void *graph) override {
    --graphs;
    delete static_cast<Operations *>(graph);
  }

private:
  using Operations = std::vector<std::function<Status()>>;
  Operations *recorded = nullptr;
  static constexpr uintptr_t unreadable = uintptr_t(1) << 55;
  static uint8_t *addressOf(uint8_t *bytes) { return host(bytes); }
  std::map<uint8_t *, uint8_t *> memory;
};

} // namespace heddle

#endif
