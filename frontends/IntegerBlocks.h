// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ggml's types whose 256 values of a block are spelled out as integers: of lattices (IQ1, IQ2, IQ3), and ternary (TQ1_0, TQ2_0).
#ifndef HEDDLE_FRONTENDS_INTEGERBLOCKS_H
#define HEDDLE_FRONTENDS_INTEGERBLOCKS_H

#include "frontends/Checkpoint.h"

namespace heddle {

// Value i is scale * scales[i / 16] * integers[i] / 2^scaleShift: exact in f32.
struct IntegerBlock {
  static constexpr int numValues = 256;
  uint16_t scale; // bits of an f16
  int8_t scales[16];
  int8_t integers[numValues];
};

// scaleShift of a type whose blocks are such.
std::optional<int> integerScaleShift(TensorType type);
// `type` has a scaleShift. Any bytes are a block.
void readIntegerBlock(TensorType type, const uint8_t *block, IntegerBlock &out);

} // namespace heddle

#endif
