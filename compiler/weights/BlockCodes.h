// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ggml's block types as affine codes: w = scale * (code - zero) + min.
#ifndef HEDDLE_COMPILER_WEIGHTS_BLOCKCODES_H
#define HEDDLE_COMPILER_WEIGHTS_BLOCKCODES_H

#include "compiler/weights/PackedLayout.h"

namespace heddle {

// One block of a file, taken apart. A scale counts for layout.block values.
struct BlockCodes {
  uint8_t codes[256];
  float scales[16];
  float mins[16];
};

// How a block type is taken apart. With f16 scales the block begins with the scale's bits, then the min's if there is
// one.
struct BlockFormat {
  TensorType type;
  PackedLayout layout;
  int64_t blockValues;
  int64_t blockBytes;
  void (*decode)(const uint8_t *block, BlockCodes &out); // scales and mins are written for wide scales only
};

// Null for plain types.
const BlockFormat *findBlockFormat(TensorType type);

} // namespace heddle

#endif
