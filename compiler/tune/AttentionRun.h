// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over the cache by itself: one sequence, without a model.
#ifndef HEDDLE_COMPILER_TUNE_ATTENTIONRUN_H
#define HEDDLE_COMPILER_TUNE_ATTENTIONRUN_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/tune/MatmulRun.h"
#include "compiler/tune/Turns.h"
#include "runtime/model/ModelAbi.h"

#include <vector>

namespace heddle {

class AttentionRun {
public:
  // `rows` tokens behind `past` others, in each of `layers`: where one layer's keys would stay in the caches from call to call, a model's do not.
  AttentionRun(const AttentionSpec &spec, int32_t past, int32_t rows, int32_t threads, int64_t layers = 1);
  AttentionRun(const AttentionRun &) = delete;
  // Calls `kernel`, which buildAttention made of the specification, whatever its tiles. Lives no longer than this object.
  Turn turn(void *kernel) const;

  // What the last call wrote: (rows, numHeads * headDim).
  llvm::ArrayRef<float> result() const { return out; }

  const int64_t layers;

  // Of all layers: bytes of keys and values if each is read once, and 2 for each multiply-add of visible keys, nothing for the softmax.
  double cachedBytes, flops;

private:
  const int32_t threads;
  const int64_t width; // floats of a row
  int64_t keyBytes;    // of a layer's keys in a page
  PageMemory storage;
  std::vector<uint8_t *> pages;
  std::vector<float> queries;
  mutable std::vector<float> out;
  heddle_sequence sequence;
};

} // namespace heddle

#endif
