// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A session's memory on a device, and what a step moves there and back: ids and places in, logits out. A step waits
// once, when all is enqueued.
//
// A step of one row in each sequence, as decode is, is launched as a graph where the driver has them: what changes from token to token lies
// in `inputs` and in tables on the device, and the arguments of kernels depend on the number of sequences and the width of the page table alone,
// which grows by powers of two.
#ifndef HEDDLE_RUNTIME_SESSION_DEVICESTEP_H
#define HEDDLE_RUNTIME_SESSION_DEVICESTEP_H

#include "runtime/session/DeviceRope.h"
#include "runtime/session/PageTable.h"
#include "runtime/session/StepGraphs.h"

#include <array>
#include <memory>

namespace heddle {

class DeviceStep { // of the part `devices` (SessionParts.h)
public:
  virtual ~DeviceStep() = default;
  struct Sizes {
    uint64_t arenaBytes;
    int64_t maxRows, maxOutputs; // of a step
    int64_t maxSequences, context, vocabSize, hiddenSize;
    int64_t sourceContext; // 0: it has no sources
    bool hasAdapters, isGivenRows;
  };
  virtual Status create(Device &device, const Sizes &sizes, RopeTables &rope);

  // Of a model that is given rows: (count, hidden_size) of the host's stand behind `numBefore` that it was given, where steps may name them.
  virtual Status give(const float *rows, int64_t numBefore, int64_t count);

  // Where what a step gives goes; null: it stays on the device, until the next step.
  struct Results {
    float *logits = nullptr;                      // (num_outputs, vocab_size)
    int32_t *chosen = nullptr;                    // (num_outputs): tokens, -1 where a logit is not finite
    float *hidden = nullptr;                      // (rows, hidden_size)
    const heddle_token_choice *choices = nullptr; // (num_outputs): how tokens are chosen; null: the largest logit each
  };
  // What tells a device, step.device, the launches of a step.
  struct Code {
    void (*run)(void *user, const heddle_step &step);
    void *user;
  };
  // `step` as for the host, its rows at most maxRows, of which maxOutputs have outputs. Uploads what it names, puts the device's addresses in its place, launches, waits, and
  // downloads the results. `sources`: the cache of step.sources.
  virtual Status run(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources, const Results &results,
                     const Code &code);
  // Of the last step, of which they stayed there.
  virtual Status downloadLogits(int64_t numOutputs, float *outLogits);

  // Why every step is launched kernel by kernel; a success where a token's is a graph.
  virtual const Status &graphRefusal() const { return graphs.refusal(); }

private:
  // Whether a step may be launched as a graph: whether all that it downloads goes to locked memory.
  bool mayBeGraph(const heddle_step &step, const Results &results) const;
  Status upload(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources, const Results &results,
                bool isWide);
  void stageInputs(heddle_step &step, const Results &results);
  void placeBuffers(heddle_step &step, const PagedKvCache &cache, const PagedKvCache &sources);
  Status launch(const heddle_step &step, const Results &results, const Code &code, bool isOfGraphs);
  void record(StepGraphs::Kind &kind, const heddle_step &step, const Results &results, const Code &code);
  Status enqueue(const heddle_step &step, const Results &results, const Code &code);
  struct Download {
    void *to;
    const DeviceMemory &from;
    const TransferMemory &locked; // with room for `room` bytes
    uint64_t bytes, room;
    bool isLocked() const { return bytes <= room; }
  };
  static constexpr int numResults = 3;
  std::array<Download, numResults> downloads(const heddle_step &step, const Results &results) const;
  // Whatever a step that failed has enqueued is no longer on its way.
  void forget();

  Device *device = nullptr;
  Sizes sizes = {};
  StepLaunches launches;
  StepGraphs graphs;
  DeviceRope rope;
  PageTableOnDevice pages, sourcePages;
  ReservedArray<heddle_sequence> equalSequences, equalSources; // (maxSequences): what code of graphs sees
  TransferMemory
      staged; // what `inputs` gets: five arrays of rows, or six, the sequences' rows, which see ahead, the sources' lengths, the choices
  uint64_t stagedBytes = 0;
  const heddle_token_choice *choices = nullptr;            // within inputs, or null
  int64_t lockedRows = 0;                                  // of logits and hidden states
  TransferMemory lockedLogits, lockedChosen, lockedHidden; // where downloads arrive
  DeviceMemory arena, logits, chosen, hidden, inputs, counters;
  std::unique_ptr<DeviceMemory> given; // (givenRoom, hidden_size); null where steps are given no rows
  int64_t givenRoom = 0;
};

} // namespace heddle

#endif
