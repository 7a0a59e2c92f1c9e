// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes sequences with a model that sees all of each at once. Sequences are put into steps whole, as many as there are rows for: what
// a sequence gives does not depend on those beside it. Everything is allocated at creation.
#ifndef HEDDLE_RUNTIME_SESSION_ENCODER_H
#define HEDDLE_RUNTIME_SESSION_ENCODER_H

#include "runtime/session/Package.h"
#include "runtime/session/Reserved.h"
#include "runtime/session/Session.h"

namespace heddle {

// A sequence: (count) each.
struct EncoderInput {
  int32_t count = 0;
  const int32_t *ids = nullptr, *positions = nullptr, *tokenTypes = nullptr;
};

// Receives what sequence `index` gives: (count, hidden_size), and (hidden_size) of the pooler or null. Both are valid during the call only.
using TakeEncoding = void (*)(void *user, size_t index, const float *lastHiddenState, const float *poolerOutput);

class Encoder {
public:
  // `pool` null: `threads` of its own, 0: defaultThreadCount().
  static Status create(Package &package, int32_t threads, ThreadPool *pool, std::unique_ptr<Encoder> &outEncoder);

  Status run(const EncoderInput *inputs, size_t numInputs, TakeEncoding take, void *user);
  void setProgress(Progress newProgress) { progress = newProgress; }
  void observeKernels(KernelObserver newObserver) { observer = newObserver; }
  // Counts from here on what steps spend in each kernel.
  void profileKernels();
  StepProfile &kernelProfile() { return profile; } // empty without profileKernels()
  ThreadPool &threadPool() { return *pool; }

private:
  explicit Encoder(Package &package) : model(package) {}
  Status allocate(int32_t threads, ThreadPool *shared);
  Status check(const EncoderInput *inputs, size_t numInputs) const;
  // Puts the sequences from `first` on into a step; gives the one behind the last.
  size_t fill(const EncoderInput *inputs, size_t first, size_t numInputs);
  Status compute();

  Package &model;
  int64_t hiddenSize = 0, maxRows = 0, rows = 0, numSequences = 0; // rows and sequences of the step
  ThreadPoolHandle pool;
  Progress progress;
  KernelObserver observer;
  StepProfile profile;
  std::vector<heddle_sequence> profiled; // the step's sequences, which nothing but the profile asks for
  Reserved arena, scratch, hiddenRows, pooledRows;
  ReservedArray<int32_t> ids, positions, tokenTypes; // (maxRows)
  ReservedArray<int32_t> firstRows, sequenceRows;    // (maxRows), (maxRows, 2)
};

} // namespace heddle

#endif
