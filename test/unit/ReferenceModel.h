// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tiny llama of test/models/llama as hand-written code: plain loops in f64 behind the ABI of generated code, so that the runtime
// is tested without the compiler.
#ifndef HEDDLE_TEST_UNIT_REFERENCEMODEL_H
#define HEDDLE_TEST_UNIT_REFERENCEMODEL_H

#include "runtime/model/ModelAbi.h"

#include <cstddef>

namespace heddle::reference {

constexpr int hiddenSize = 64, intermediateSize = 96, numLayers = 2, numHeads = 4, numKvHeads = 2, headDim = 16,
              vocabSize = 256;
constexpr int context = 128, maxRows = 8;
constexpr int longestContext = 512; // that a package may say instead
constexpr float normEps = 1e-6f;

// Weights as (name, number of floats), in the order in which they lie one after the other, each (out_features,
// in_features).
struct WeightSlot {
  const char *name;
  size_t count;
};
constexpr size_t numWeights = 3 + 9 * numLayers;
extern const WeightSlot weightSlots[numWeights];

// K and V of all layers for 64 tokens.
constexpr size_t pageBytes = size_t(numLayers) * 2 * numKvHeads * HEDDLE_KV_PAGE_SIZE * headDim * sizeof(float);
// Activations of a row: x, normed, q, attended, and the MLP's inner values.
constexpr size_t rowBytes = (4 * hiddenSize + intermediateSize) * sizeof(float);

extern int window; // tokens that a row sees, itself included; 0: all

void step(const heddle_step *step, int32_t thread, int32_t numThreads);

} // namespace heddle::reference

#endif
