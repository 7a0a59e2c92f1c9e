// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ggml's block types as codes: w = scale * (code - zero) + min, or an entry of a table in place of code - zero.
#ifndef HEDDLE_COMPILER_WEIGHTS_BLOCKCODES_H
#define HEDDLE_COMPILER_WEIGHTS_BLOCKCODES_H

#include "compiler/weights/PackedLayout.h"

namespace heddle {

// One block of a file, taken apart.
struct BlockCodes {
  uint8_t codes[256];
  uint16_t scale, min;                     // bits of layout.scales, or of f16 with nested ones; a min is added
  int8_t nestedScales[16], nestedMins[16]; // each for layout.block values
};

// How a block type is taken apart.
struct BlockFormat {
  TensorType type;
  PackedLayout layout;
  int64_t blockValues;
  int64_t blockBytes;
  void (*decode)(const uint8_t *block, BlockCodes &out); // writes what the layout has
};

// Null for plain types.
const BlockFormat *findBlockFormat(TensorType type);

} // namespace heddle

#endif
