// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A session's memory on a device, and what a step moves there and back: ids and places in, logits out.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICESTEP_H
#define HEDDLE_RUNTIME_SESSION_DEVICESTEP_H

#include "runtime/session/DeviceRope.h"
#include "runtime/session/PagedKvCache.h"

namespace heddle {

class DeviceStep {
public:
  struct Sizes {
    uint64_t arenaBytes;
    int64_t maxRows, maxSequences, context, vocabSize, hiddenSize;
    int64_t sourceContext; // 0: it has no sources
  };
  Status create(Device &device, const Sizes &sizes, const RopeTables &rope);

  // `step` as for the host, its rows at most maxRows. Uploads what it names and puts the device's addresses in its place.
  // `sources`: the cache of step.sources.
  Status begin(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources);
  // Waits, and downloads the logits, and the hidden states where `hidden` is not null.
  Status end(const heddle_step &step, float *logits, float *hidden);

private:
  Status uploadInputs(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources);

  Device *device = nullptr;
  Sizes sizes = {};
  StepLaunches launches;
  DeviceRope rope;
  DeviceMemory arena, logits, hidden, inputs;
  ReservedArray<int32_t>
      staged; // what `inputs` gets: five arrays of rows, the sequences' rows, the sources' lengths, page tables
};

} // namespace heddle

#endif
