// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A session's memory on a device, and what a step moves there and back: ids and places in, logits out. A step waits
// once, when all is enqueued.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICESTEP_H
#define HEDDLE_RUNTIME_SESSION_DEVICESTEP_H

#include "runtime/session/DeviceRope.h"
#include "runtime/session/PageTable.h"

namespace heddle {

class DeviceStep {
public:
  struct Sizes {
    uint64_t arenaBytes;
    int64_t maxRows, maxSequences, context, vocabSize, hiddenSize;
    int64_t sourceContext; // 0: it has no sources
  };
  Status create(Device &device, const Sizes &sizes, RopeTables &rope);

  // `step` as for the host, its rows at most maxRows. Uploads what it names, which stays as it is until end() has
  // returned, and puts the device's addresses in its place. `sources`: the cache of step.sources.
  Status begin(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources);
  // Where what a step gives goes; null: it stays on the device, until the next step.
  struct Results {
    float *logits = nullptr;    // (num_outputs, vocab_size)
    int32_t *largest = nullptr; // (num_outputs): which logit is the largest, -1 where one is not finite
    float *hidden = nullptr;    // (rows, hidden_size)
  };
  // Waits, and downloads the results.
  Status end(const heddle_step &step, const Results &results);
  // Of the last step, of which they stayed there.
  Status downloadLogits(int64_t numOutputs, float *outLogits);

private:
  Status upload(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources);
  Status uploadInputs(heddle_step &step);
  // Whatever a step that failed has enqueued is no longer on its way.
  void forget();

  Device *device = nullptr;
  Sizes sizes = {};
  StepLaunches launches;
  DeviceRope rope;
  PageTableOnDevice pages, sourcePages;
  TransferMemory staged; // what `inputs` gets: five arrays of rows, the sequences' rows, the sources' lengths
  DeviceMemory arena, logits, largest, hidden, inputs;
};

} // namespace heddle

#endif
