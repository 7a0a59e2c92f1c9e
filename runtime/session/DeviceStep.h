// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A session's memory on a device, and what a step moves there and back: ids and places in, logits out.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICESTEP_H
#define HEDDLE_RUNTIME_SESSION_DEVICESTEP_H

#include "runtime/session/PagedKvCache.h"
#include "runtime/session/RopeTables.h"

#include <vector>

namespace heddle {

class DeviceStep {
public:
  struct Sizes {
    uint64_t arenaBytes;
    int64_t maxRows, maxSequences, context, vocabSize, hiddenSize;
  };
  Status create(Device &device, const Sizes &sizes, const RopeTables &rope);

  // `step` as for the host, its rows at most maxRows. Uploads what it names and puts the device's addresses in its place.
  Status begin(heddle_step &step, const PagedKvCache &cache);
  // Waits, and downloads the logits, and the hidden states where `hidden` is not null.
  Status end(const heddle_step &step, float *logits, float *hidden);

private:
  Status uploadInputs(heddle_step &step, const PagedKvCache &cache);
  Status uploadRope(heddle_step &step);

  Device *device = nullptr;
  Sizes sizes = {};
  const RopeTables *rope = nullptr;
  StepLaunches launches;
  DeviceMemory arena, logits, hidden, inputs, ropeMemory;
  std::vector<float *> ropeTables; // (num_tables): addresses of (context, rotary_dim)
  ReservedArray<int32_t> staged;   // what `inputs` gets: five arrays of rows, the sequences' rows, the page table
};

} // namespace heddle

#endif
