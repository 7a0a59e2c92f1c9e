// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weights of every attention of one sequence. Kernels attend in blocks and never store them; they are computed once more here from the
// queries that lie in the arena when a kernel of attention has run and from the keys in the cache, which the code of the model is observed for
// (KernelObserver); what of both lies on a device is copied to the host first. Whoever does not ask for them runs the same code and waits for nothing.
#ifndef HEDDLE_RUNTIME_SESSION_ATTENTIONRECORDER_H
#define HEDDLE_RUNTIME_SESSION_ATTENTIONRECORDER_H

#include "bytes/Status.h"
#include "runtime/session/Package.h"
#include "runtime/session/Reserved.h"
#include "runtime/session/StepRun.h"

#include <vector>

namespace heddle {

// Of one layer, in the order of layers among those of its role.
struct AttentionMap {
  const package::Attention *attention = nullptr;
  int64_t queries = 0, keys = 0;
  std::vector<float> weights; // (num_heads, queries, keys): what softmax gives, 0 where the mask lets nothing through
};

class AttentionRecorder {
public:
  // `package`, which has attentions, outlives the object. `device`: where its steps run, null: on the CPU.
  AttentionRecorder(const Package &package, Device *device)
      : metadata(package.metadata()), weights(package.hostWeights()), device(device) {}

  // Numbers that maps of a sequence of so many tokens, with so many of its source, hold.
  static uint64_t numbersOf(const package::Package &metadata, uint64_t tokens, uint64_t sources);

  // Makes room for them. Fails where the table of attentions does not fit the model.
  Status prepare(int64_t tokens, int64_t sources);
  // Of steps that count their kernels (SessionOptions::profile, Encoder::profileKernels) and have one sequence: the model's whole one, in pieces,
  // behind its source.
  KernelObserver observer();
  // Whether all attentions of all steps were seen.
  Status finish() const;
  const std::vector<AttentionMap> &maps() const { return all; }

private:
  void kernelEnded(const heddle_step &step, int64_t done);
  bool belongsTo(const package::Attention &attention, const heddle_step &step) const;
  // Of a device: copies what `attention` reads to the places in `arena` and `pages` that it has there, and points `step` to them.
  Status fetch(heddle_step &step, const package::Attention &attention);
  Status fetchRows(const heddle_step &step, const package::Place &place, uint64_t width);
  Status fetchKeys(heddle_step &step, const package::Attention &attention);
  void record(const heddle_step &step, AttentionMap &map);
  void loadKeys(const heddle_step &step, const package::Attention &attention, unsigned kvHead, int64_t count);
  void loadPositions(const heddle_step &step, const package::Attention &attention);
  double positionOf(const heddle_step &step, const package::Attention &attention, unsigned head, int64_t query,
                    int64_t key, int64_t distance) const;

  const package::Package &metadata;
  const uint8_t *weights; // the host's
  Device *device;
  Reserved arena, pages; // of a device's step, what was copied of them; as large as those
  uint64_t arenaBytes = 0, pageBytes = 0;
  std::vector<uint8_t *> pageAddresses;
  heddle_sequence sequence = {}; // of which they are
  std::vector<AttentionMap> all;
  std::vector<AttentionMap *> pending; // of the running step, in the order in which they run
  std::vector<uint32_t> kernels;       // behind which one of them can be recorded
  size_t seen = 0;                     // of them
  std::vector<float> keys;             // (keys, head_dim) of a head
  std::vector<float> table;            // what positions give: slopes (num_heads), or buckets (num_buckets, num_heads)
  Status failed;
};

} // namespace heddle

#endif
