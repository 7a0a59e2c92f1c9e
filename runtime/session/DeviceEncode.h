// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An encoder's memory on a device, and what an encode moves there and back: tokens or patches in, outputs out.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICEENCODE_H
#define HEDDLE_RUNTIME_SESSION_DEVICEENCODE_H

#include "runtime/session/DeviceRope.h"
#include "runtime/session/PagedKvCache.h"

#include <memory>
#include <vector>

namespace heddle {

class DeviceEncode { // of the part `devices` (SessionParts.h)
public:
  virtual ~DeviceEncode() = default;
  struct Sizes {
    uint64_t arenaBytes;
    int64_t maxRows;
    int64_t patchWidth;                // 0: it takes ids
    std::vector<int64_t> outputWidths; // by output
    bool hasSources = false;           // it appends to a cache of them
  };
  virtual Status create(Device &device, const Sizes &sizes, RopeTables &rope);

  // `step` as for the host. Uploads what it names, which stays as it is until end() has returned, and puts the device's
  // addresses in its place. `sources`: the cache that the encode appends to, or null.
  virtual Status begin(heddle_step &step, const PagedKvCache *sources);
  // Waits, and downloads `counts[i]` rows of each output to where `outputs` says.
  virtual Status end(const std::vector<int64_t> &counts, const std::vector<float *> &outputs);

private:
  Status upload(heddle_step &step, const PagedKvCache *sources);

  Device *device = nullptr;
  Sizes sizes = {};
  StepLaunches launches;
  DeviceRope rope;
  TransferMemory staged; // what `inputs` gets: seven arrays of rows, the sequences' rows, the page table
  DeviceMemory arena, inputs, patches;
  std::vector<std::unique_ptr<DeviceMemory>> results;
  std::vector<float *> resultRows; // (outputs): addresses of the device
};

} // namespace heddle

#endif
