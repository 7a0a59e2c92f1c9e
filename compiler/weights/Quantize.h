// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers in another type than their file's: quantised into ggml's blocks, or narrowed to 16 bits. The same numbers give the same bytes on
// every machine.
#ifndef HEDDLE_COMPILER_WEIGHTS_QUANTIZE_H
#define HEDDLE_COMPILER_WEIGHTS_QUANTIZE_H

#include "frontends/Checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace heddle {

// Whether convertRow takes `type`.
bool isConvertedTo(TensorType type);

// Writes `count` numbers as `type` has them, to the nearest it can: f32, f16 and bf16, ties to even, q8_0, q4_0 and q4_k. `count` is a
// multiple of the type's block. False where a number, or the scale of its block, is beyond the type's range or not finite.
bool convertRow(TensorType type, const float *numbers, size_t count, uint8_t *out);

// What converting numbers changed in them.
struct ConversionLoss {
  double differences = 0, numbers = 0; // sums of squares
  double largest = 0;                  // difference
  std::optional<float> unfit = {};     // the largest number of the first row that convertRow refused
  std::optional<TensorType> from = {}; // what they were

  void add(const float *before, const float *after, size_t count);
  void add(const ConversionLoss &other);
  // Root mean square of the differences, relative to that of the numbers.
  double relative() const;
};

// The numbers of a matrix of `rows` stored rows, dense in `out`. Where the file has them as `fileType`, they are those that `type` has for
// them, whose blocks lie along stored rows or, `acrossRows`, along stored columns. `stride` is that of dequantizeRows.
void readNumbers(TensorType type, std::optional<TensorType> fileType, bool acrossRows, const uint8_t *data, size_t rows,
                 size_t width, size_t stride, float *out);

} // namespace heddle

#endif
